#include <algorithm>
#include <cmath>
#include <utility>

#include "src/trace/compress/cells.h"
#include "src/trace/compress/kinds.h"
#include "src/trace/json_fields.h"
#include "tensor_tracer/trace/reductions.h"

namespace tt::trace {
namespace {

using nlohmann::json;

// Partial dot products cover so many logical columns, wherever ranks border.
constexpr std::int64_t kBlock = 64;

// The vectors of one entry: rows[n][k] belongs to hidden state n of vector k, as Number.
template <typename Number>
using Rows = std::vector<std::vector<std::vector<Number>>>;

template <typename Number_>
struct DotKernel {
  using Number = Number_;
  using Value = Number_;
  static constexpr bool kPerLine = true;
  const std::vector<std::vector<Number>>* vectors;
  std::int64_t values(std::int64_t /*width*/) const {
    return static_cast<std::int64_t>(vectors->size());
  }
  void reduce(const Cell<Number>& cell, Value* out) const {
    for (const std::vector<Number>& vector : *vectors) {
      *out++ = fixed_order_dot(cell.data, vector.data() + cell.first_column, cell.width);
    }
  }
};

// [rows, lines, vectors]: the dot product of each line with each vector.
template <typename Number>
class ProjectionPacking : public CellPacking<DotKernel<Number>> {
 public:
  ProjectionPacking(const LogicalShape& shape, std::shared_ptr<const Rows<Number>> rows)
      : CellPacking<Kernel>(make_cell_layout(shape, 1, even_boundaries(shape.features, kBlock)),
                            shape.result_shape(static_cast<std::int64_t>(rows->front().size())),
                            Kernel{&rows->front()}),
        rows_(std::move(rows)),
        vectors_(static_cast<std::int64_t>(rows_->front().size())),
        lines_(shape.rows * shape.wanted_lines()),
        lines_per_row_(shape.wanted_lines()) {}

  void pack(int layer, std::size_t rank, const LocalTensor& local, std::byte* part) const override {
    Kernel kernel{&rows_->at(static_cast<std::size_t>(layer))};
    this->pack_with(kernel, rank, local, part);
  }
  void join(int layer, const std::vector<const std::byte*>& parts, std::byte* out) const override {
    Kernel kernel{&rows_->at(static_cast<std::size_t>(layer))};
    const auto blocks = static_cast<std::int64_t>(this->layout_.columns.blocks.size());
    std::vector<Number> partial(static_cast<std::size_t>(lines_ * blocks * vectors_));
    this->join_with(kernel, parts, [&](const CellPlace& at) {
      return partial.data() +
             ((at.row * lines_per_row_ + at.line) * blocks + static_cast<std::int64_t>(at.column)) *
                 vectors_;
    });
    auto* sums = reinterpret_cast<Number*>(out);
    for (std::int64_t line = 0; line < lines_; ++line) {
      for (std::int64_t k = 0; k < vectors_; ++k) {
        Number sum = 0;
        for (std::int64_t block = 0; block < blocks; ++block) {
          sum += partial[static_cast<std::size_t>((line * blocks + block) * vectors_ + k)];
        }
        *sums++ = sum;
      }
    }
  }

 private:
  using Kernel = DotKernel<Number>;
  const std::shared_ptr<const Rows<Number>> rows_;
  const std::int64_t vectors_, lines_, lines_per_row_;
};

// Row n of every vector, of length 1 if asked for; the length is taken in double.
template <typename Number>
std::shared_ptr<const Rows<Number>> rows_of(
    const std::vector<std::shared_ptr<const DirectionVector>>& vectors, bool normalize,
    std::int64_t hidden_states) {
  auto rows = std::make_shared<Rows<Number>>(static_cast<std::size_t>(hidden_states));
  for (std::int64_t n = 0; n < hidden_states; ++n) {
    for (const auto& vector : vectors) {
      const float* row = vector->row(static_cast<int>(n));
      double squares = 0.0;
      for (std::int64_t i = 0; i < vector->hidden_size; ++i) {
        squares += static_cast<double>(row[i]) * row[i];
      }
      const double scale = normalize && squares > 0 ? 1.0 / std::sqrt(squares) : 1.0;
      std::vector<Number> numbers(static_cast<std::size_t>(vector->hidden_size));
      std::transform(row, row + vector->hidden_size, numbers.begin(),
                     [scale](float x) { return static_cast<Number>(x * scale); });
      (*rows)[static_cast<std::size_t>(n)].push_back(std::move(numbers));
    }
  }
  return rows;
}

class ProjectionCompressor : public Compressor {
 public:
  ProjectionCompressor(std::vector<std::string> names,
                       std::vector<std::shared_ptr<const DirectionVector>> vectors, bool normalize,
                       json layer_base)
      : names_(std::move(names)),
        vectors_(std::move(vectors)),
        normalize_(normalize),
        layer_base_(std::move(layer_base)) {
    const DirectionVector& first = *vectors_.front();
    const auto hidden_states = static_cast<std::int64_t>(first.rows.size()) / first.hidden_size;
    floats_ = rows_of<float>(vectors_, normalize, hidden_states);
    doubles_ = rows_of<double>(vectors_, normalize, hidden_states);
  }
  json to_json() const override {
    json form = {{"kind", "projection"}, {"vectors", names_}, {"normalize", normalize_}};
    if (!layer_base_.is_null()) form["layer_base"] = layer_base_;
    return form;
  }
  protocol::RecordCompressor code() const override {
    return protocol::RecordCompressor::kProjection;
  }
  std::vector<std::shared_ptr<const DirectionVector>> vectors() const override { return vectors_; }
  std::shared_ptr<const Packing> packing(const LogicalShape& shape, bool is_double) const override {
    if (is_double) return std::make_shared<ProjectionPacking<double>>(shape, doubles_);
    return std::make_shared<ProjectionPacking<float>>(shape, floats_);
  }

 private:
  const std::vector<std::string> names_;
  const std::vector<std::shared_ptr<const DirectionVector>> vectors_;  // by name
  const bool normalize_;
  const json layer_base_;  // as asked for; null: as the file's rows tell
  std::shared_ptr<const Rows<float>> floats_;
  std::shared_ptr<const Rows<double>> doubles_;
};

base::Status parse_names(const json& text, const std::string& where, VectorLibrary& library,
                         std::vector<std::string>& names) {
  const json& list = text.contains("vectors") ? text["vectors"] : json();
  if (!list.is_array() || list.empty() || list.size() > kMaxVectors) {
    std::string known;
    for (const std::string& name : library.names()) known += (known.empty() ? "" : ", ") + name;
    return base::invalid_argument(
        where, "vectors must be a list of 1 to " + std::to_string(kMaxVectors) + " names",
        "known vectors: " + known);
  }
  for (const json& name : list) {
    if (!name.is_string()) return base::invalid_argument(where, name.dump() + " is not a name");
    names.push_back(name.get<std::string>());
  }
  return {};
}

base::Status check_vector(const DirectionVector& vector, const std::string& where,
                          const points::Place& point) {
  if (vector.hidden_size != point.features) {
    return base::invalid_argument(
        where,
        "\"" + vector.name + "\" has " + std::to_string(vector.hidden_size) + " numbers, " +
            point.name + " has " + std::to_string(point.features) + " features",
        "project a point of the residual stream, such as HiddenStates");
  }
  if (point.hidden_state == 0 && !vector.has_embedding_row) {
    return base::invalid_argument(where, "\"" + vector.name + "\" has no row for the embedding",
                                  "project layers from 1 on");
  }
  return {};
}

// A file's number of rows tells what its first row is; who says it wants to be sure.
base::Status check_base(const json& base, const DirectionVector& vector, const std::string& where) {
  if (base.is_null() || (base == 0) == vector.has_embedding_row) return {};
  return base::invalid_argument(
      where, "\"" + vector.name + "\" begins with " +
                 (vector.has_embedding_row ? "the embedding's row: 0" : "the row of layer 1: 1"));
}

}  // namespace

ParsedCompressor parse_projection(const json& text, const std::string& where,
                                  const CompressorContext& context) {
  if (auto status =
          refuse_unknown_keys(text, where, {"kind", "vectors", "normalize", "layer_base"});
      !status) {
    return status.error();
  }
  if (context.vectors == nullptr) {
    return base::invalid_argument(where, "this run has no vectors",
                                  "start it with --tensor-tracer-vectors and a directory");
  }
  std::vector<std::string> names;
  if (auto status = parse_names(text, where + ".vectors", *context.vectors, names); !status) {
    return status.error();
  }
  const json base = text.value("layer_base", json());
  if (!base.is_null() && (!base.is_number_integer() || (base != 0 && base != 1))) {
    return base::invalid_argument(where + ".layer_base",
                                  "must be 0 or 1, the layer of a vector's first row");
  }
  const json normalize = text.value("normalize", json(true));
  if (!normalize.is_boolean())
    return base::invalid_argument(where + ".normalize", "must be true or false");
  std::vector<std::shared_ptr<const DirectionVector>> vectors;
  for (const std::string& name : names) {
    auto found = context.vectors->find(name);
    if (!found) {
      base::Error error = found.error();
      error.where = where + ".vectors: " + error.where;
      return error;
    }
    base::Status status = check_vector(*found.value(), where + ".vectors", context.point);
    if (status) status = check_base(base, *found.value(), where + ".layer_base");
    if (!status) return status.error();
    vectors.push_back(std::move(found).value());
  }
  return made<ProjectionCompressor>(std::move(names), std::move(vectors), normalize.get<bool>(),
                                    base);
}

}  // namespace tt::trace
