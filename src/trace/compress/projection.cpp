#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

#include "src/trace/compress/cells.h"
#include "src/trace/compress/kinds.h"
#include "src/trace/json_fields.h"
#include "tensor_tracer/trace/reductions.h"

namespace tt::trace {
namespace {

using nlohmann::json;

// Logical columns per partial dot product; independent of the borders between ranks.
constexpr std::int64_t kBlock = 64;

// The vectors of one entry: rows[n][k] belongs to hidden state n of vector k, as Number.
template <typename Number>
using Rows = std::vector<std::vector<std::vector<Number>>>;
using AllRows = std::tuple<Rows<float>, Rows<double>>;

// The vectors of one hidden state, [vectors, columns], on the devices that used them. Thread: any.
class DeviceRows {
 public:
  template <typename Number>
  at::Tensor of(const Rows<Number>& rows, int hidden_state, at::Device device) {
    const std::scoped_lock lock(mutex_);
    at::Tensor& copy = copies_[{hidden_state, device.str()}];
    if (copy.defined()) return copy;
    constexpr at::ScalarType kNumber = c10::CppTypeToScalarType<Number>::value;
    std::vector<at::Tensor> vectors;
    for (const std::vector<Number>& vector : rows.at(static_cast<std::size_t>(hidden_state)))
      vectors.push_back(at::tensor(vector, at::device(at::kCPU).dtype(kNumber)));
    return copy = at::stack(vectors).to(device);
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, std::string>, at::Tensor> copies_;
};

template <typename Number>
struct DotKernel {
  const std::vector<std::vector<Number>>& vectors;
  const bool adds_square;
  void reduce(const Cell<Number>& cell, Number* out) const {
    for (const std::vector<Number>& vector : vectors)
      *out++ = fixed_order_dot(cell.data, vector.data() + cell.first_column, cell.width);
    if (adds_square) *out = fixed_order_dot(cell.data, cell.data, cell.width);
  }
};

// The dot product of each line with each vector, or the cosine of both.
template <typename Number_>
struct ProjectionMethod : CellMethod {
  using Number = Number_;
  using Value = Number_;
  static constexpr std::string_view kCompressor = "projection";
  std::shared_ptr<const AllRows> all_rows;
  bool is_cosine = false;  // the rows have length 1; a cell has the square of the line, too
  std::shared_ptr<DeviceRows> on_devices = std::make_shared<DeviceRows>();

  const Rows<Number>& rows() const { return std::get<Rows<Number>>(*all_rows); }
  std::int64_t values(std::int64_t /*width*/) const {
    return static_cast<std::int64_t>(rows().front().size()) + (is_cosine ? 1 : 0);
  }
  DotKernel<Number> kernel(const CaptureFacts& facts) const {
    return {rows().at(static_cast<std::size_t>(facts.layer)), is_cosine};
  }

  template <typename Element>
  device::Prepared<device::DotReducer<Element>> device(const CaptureFacts& facts,
                                                       at::Device on) const {
    const at::Tensor vectors = on_devices->of<Number>(rows(), facts.layer, on);
    return {{{}, vectors.const_data_ptr<Number>(), vectors.size(0), vectors.size(1), is_cosine},
            vectors};
  }

  void combine(const DotKernel<Number>& kernel, std::span<Number> partial_sums, std::int64_t lines,
               const std::vector<const std::byte*>& /*tails*/, Number* out) const {
    const std::size_t vectors = kernel.vectors.size();
    const std::size_t of_cell = vectors + (is_cosine ? 1 : 0);
    const std::size_t of_line = partial_sums.size() / static_cast<std::size_t>(lines);
    for (std::size_t line = 0; line < partial_sums.size(); line += of_line) {
      const auto sum_of = [&](std::size_t k) {
        Number sum = 0;
        for (std::size_t i = k; i < of_line; i += of_cell) sum += partial_sums[line + i];
        return sum;
      };
      const Number square = is_cosine ? sum_of(vectors) : Number(1);
      // The cosine with a line of zeros is 0, as in torch.cosine_similarity.
      const Number length = square > 0 ? std::sqrt(square) : Number(1);
      for (std::size_t k = 0; k < vectors; ++k) *out++ = sum_of(k) / length;
    }
  }
};

// Row n of every vector. With `normalize`, rows are scaled to length 1; the length is computed in
// double.
template <typename Number>
Rows<Number> rows_of(const std::vector<std::shared_ptr<const DirectionVector>>& vectors,
                     bool normalize) {
  const DirectionVector& first = *vectors.front();
  const std::size_t hidden_states = first.rows.size() / static_cast<std::size_t>(first.hidden_size);
  Rows<Number> rows(hidden_states);
  for (std::size_t n = 0; n < hidden_states; ++n) {
    for (const auto& vector : vectors) {
      const float* row = vector->row(static_cast<int>(n));
      double squares = 0.0;
      for (std::int64_t i = 0; i < vector->hidden_size; ++i)
        squares += static_cast<double>(row[i]) * row[i];
      const double scale = normalize && squares > 0 ? 1.0 / std::sqrt(squares) : 1.0;
      std::vector<Number> numbers(static_cast<std::size_t>(vector->hidden_size));
      std::transform(row, row + vector->hidden_size, numbers.begin(),
                     [scale](float x) { return static_cast<Number>(x * scale); });
      rows[n].push_back(std::move(numbers));
    }
  }
  return rows;
}

std::shared_ptr<const Packing> projection_packing(const std::shared_ptr<const AllRows>& rows,
                                                  bool is_cosine, const LogicalShape& shape,
                                                  bool is_double) {
  const auto vectors = static_cast<std::int64_t>(std::get<Rows<float>>(*rows).front().size());
  return make_cell_packing<ProjectionMethod>(
      is_double, shape, make_cell_layout(shape, 1, even_boundaries(shape.features, kBlock)),
      shape.result_shape(vectors), rows, is_cosine);
}

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

// The number of rows in a file decides whether its first row is the embedding or layer 1.
// "layer_base" asserts which of the two it is.
base::Status check_base(const json& base, const DirectionVector& vector, const std::string& where) {
  if (base.is_null() || (base == 0) == vector.has_embedding_row) return {};
  return base::invalid_argument(
      where, "\"" + vector.name + "\" begins with " +
                 (vector.has_embedding_row ? "the embedding's row: 0" : "the row of layer 1: 1"));
}

base::Result<std::vector<std::shared_ptr<const DirectionVector>>> find_vectors(
    const std::vector<std::string>& names, const std::string& where, const json& base,
    const CompressorContext& context) {
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
  return vectors;
}

// What a dot product is divided by.
struct Scale {
  bool normalize = true;  // the length of the vector
  bool cosine = false;    // that of the line, too
};

base::Result<Scale> parse_scale(const json& text, const std::string& where) {
  for (const char* name : {"normalize", "cosine"})
    if (!text.value(name, json(true)).is_boolean())
      return base::invalid_argument(where + "." + name, "must be true or false");
  const Scale scale{text.value("normalize", true), text.value("cosine", false)};
  if (!scale.cosine || scale.normalize) return scale;
  return base::invalid_argument(where + ".cosine", "does not depend on the length of a vector",
                                "leave cosine or normalize out");
}

}  // namespace

ParsedCompressor parse_projection(const json& text, const std::string& where,
                                  const CompressorContext& context) {
  if (auto status = refuse_unknown_keys(text, where,
                                        {"kind", "vectors", "normalize", "cosine", "layer_base"});
      !status)
    return status.error();
  if (context.vectors == nullptr) {
    return base::invalid_argument(where, "this run has no vectors",
                                  "start it with --tensor-tracer-vectors and a directory");
  }
  std::vector<std::string> names;
  if (auto status = parse_names(text, where + ".vectors", *context.vectors, names); !status)
    return status.error();
  const json base = text.value("layer_base", json());
  if (!base.is_null() && (!base.is_number_integer() || (base != 0 && base != 1))) {
    return base::invalid_argument(where + ".layer_base",
                                  "must be 0 or 1, the layer of a vector's first row");
  }
  const auto read = parse_scale(text, where);
  if (!read) return read.error();
  const auto [normalize, cosine] = read.value();
  auto vectors = find_vectors(names, where, base, context);
  if (!vectors) return vectors.error();
  json form = {{"kind", "projection"}, {"vectors", std::move(names)}, {"normalize", normalize}};
  if (cosine) form["cosine"] = true;
  if (!base.is_null()) form["layer_base"] = base;
  const auto rows = std::make_shared<const AllRows>(rows_of<float>(vectors.value(), normalize),
                                                    rows_of<double>(vectors.value(), normalize));
  return parsed({.form = std::move(form),
                 .code = protocol::RecordCompressor::kProjection,
                 .packing = std::bind_front(projection_packing, rows, cosine),
                 .vectors = std::move(vectors).value()});
}

}  // namespace tt::trace
