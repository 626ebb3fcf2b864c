#include <algorithm>
#include <optional>
#include <utility>

#include "src/trace/compress/kinds.h"
#include "src/trace/compress/tile_expression.h"
#include "src/trace/compress/tile_packing.h"
#include "src/trace/json_fields.h"

namespace tt::trace {
namespace {

using nlohmann::json;

constexpr std::int64_t kDefaultTiles = 64;
constexpr const char* kMethods[] = {"mean", "sum", "absmax"};

struct Method {
  std::string text = "mean";
  std::optional<TileExpression> expression;  // none: built in
};

template <typename Number>
std::shared_ptr<const Packing> make_built_in(const std::string& method, const LogicalShape& shape,
                                             const std::vector<std::int64_t>& boundaries) {
  if (method == "sum") {
    return std::make_shared<TilePacking<Number, TileMethod::kSum>>(shape, boundaries);
  }
  if (method == "absmax") {
    return std::make_shared<TilePacking<Number, TileMethod::kAbsoluteMax>>(shape, boundaries);
  }
  return std::make_shared<TilePacking<Number, TileMethod::kMean>>(shape, boundaries);
}

std::shared_ptr<const Packing> make_packing(const Method& method, const LogicalShape& shape,
                                            const std::vector<std::int64_t>& boundaries,
                                            bool is_double) {
  if (method.expression) {
    return make_expression_packing(*method.expression, shape, boundaries, is_double);
  }
  return is_double ? make_built_in<double>(method.text, shape, boundaries)
                   : make_built_in<float>(method.text, shape, boundaries);
}

// Tensor Tracer's two stages: every rank reduces its own columns to tiles, the leader reduces those
// to tiles once more. Both always run. Mesh-dependent by definition.
class TwoStagePacking : public Packing {
 public:
  TwoStagePacking(std::shared_ptr<const Packing> first, std::shared_ptr<const Packing> second,
                  std::int64_t between, std::int64_t lines)
      : first_(std::move(first)), second_(std::move(second)), between_(between), lines_(lines) {}

  std::size_t part_bytes(std::size_t rank) const override { return first_->part_bytes(rank); }
  void pack(int layer, std::size_t rank, const LocalTensor& local, std::byte* part) const override {
    first_->pack(layer, rank, local, part);
  }
  void join(int layer, const std::vector<const std::byte*>& parts, std::byte* out) const override {
    const auto rows = static_cast<std::size_t>(shape().front());
    const auto per_row = static_cast<std::size_t>(lines_ * between_);
    std::vector<double> tiles(rows * per_row);  // room enough for both kinds of numbers
    first_->join(layer, parts, reinterpret_cast<std::byte*>(tiles.data()));
    std::vector<double> part((second_->part_bytes(0) + 7) / 8);
    second_->pack(layer, 0, {tiles.data(), lines_ * between_, between_},
                  reinterpret_cast<std::byte*>(part.data()));
    second_->join(layer, {reinterpret_cast<const std::byte*>(part.data())}, out);
  }
  std::vector<std::int64_t> shape() const override { return second_->shape(); }

 private:
  const std::shared_ptr<const Packing> first_, second_;
  const std::int64_t between_, lines_;
};

// Boundaries, in logical columns, of `tiles` tiles for each rank: a segment of the rank's columns
// gets its share of them, at least one tile and at most as many as it has columns.
std::vector<std::int64_t> tiles_of_ranks(const mesh::Placement& placement, int ranks,
                                         std::int64_t features, std::int64_t tiles) {
  std::vector<std::int64_t> boundaries = {features};
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<mesh::Interval> held = intervals_of_rank(placement, rank, ranks);
    const std::int64_t width = local_size(placement, rank, ranks);
    for (const mesh::Interval& at : held) {
      if (at.owner != rank) continue;
      const std::int64_t size = at.end - at.begin;
      const std::int64_t share =
          tiles * (at.local_begin + size) / width - tiles * at.local_begin / width;
      const std::int64_t count = std::clamp<std::int64_t>(share, 1, size);
      for (std::int64_t t = 0; t < count; ++t) {
        boundaries.push_back(at.begin + t * size / count);
      }
    }
  }
  std::ranges::sort(boundaries);
  return boundaries;
}

// Boundaries of the first stage's tiles: of each rank's own columns, or of all where a rank holds
// them all.
std::vector<std::int64_t> first_boundaries(const mesh::Placement& placement, int ranks,
                                           std::int64_t features, std::int64_t tiles) {
  const bool is_cut = placement.kind == mesh::Placement::Kind::kShard && placement.dim == 2;
  return is_cut ? tiles_of_ranks(placement, ranks, features, tiles)
                : tile_boundaries(features, std::min(tiles, features));
}

struct OneRank {
  std::int64_t tiles = 0;
  Method method;
};

class TileCompressor : public Compressor {
 public:
  TileCompressor(std::int64_t tiles, Method method, std::optional<OneRank> one_rank, DataDims dims)
      : tiles_(tiles), method_(std::move(method)), one_rank_(std::move(one_rank)), dims_(dims) {}

  json to_json() const override {
    json text = {{"kind", "tile"}, {"tiles", tiles_}, {"method", method_.text}};
    if (one_rank_) {
      text["tiles_one_rank"] = one_rank_->tiles;
      text["method_one_rank"] = one_rank_->method.text;
    }
    if (dims_ == DataDims::kRows) text["data_dims"] = 4;
    return text;
  }
  protocol::RecordCompressor code() const override { return protocol::RecordCompressor::kTile; }

  std::shared_ptr<const Packing> packing(const LogicalShape& shape, bool is_double) const override {
    if (!one_rank_) {
      const std::int64_t tiles = std::min(tiles_, shape.features);
      return make_packing(method_, shape, tile_boundaries(shape.features, tiles), is_double);
    }
    const auto boundaries =
        first_boundaries(shape.placement, shape.ranks, shape.features, one_rank_->tiles);
    LogicalShape joined = shape;
    joined.features = static_cast<std::int64_t>(boundaries.size()) - 1;
    joined.lines = shape.wanted_lines();
    joined.first_line = 0;
    joined.last_line = joined.lines;
    joined.placement = mesh::Placement::replicate();
    joined.ranks = 1;
    return std::make_shared<TwoStagePacking>(
        make_packing(one_rank_->method, shape, boundaries, is_double),
        make_packing(method_, joined,
                     tile_boundaries(joined.features, std::min(tiles_, joined.features)),
                     is_double),
        joined.features, joined.lines);
  }

 private:
  const std::int64_t tiles_;
  const Method method_;
  const std::optional<OneRank> one_rank_;
  const DataDims dims_;
};

base::Result<DataDims> parse_data_dims(const json& text, const std::string& where) {
  std::int64_t dims = 3;
  if (auto status = parse_integer(text, "data_dims", where, 3, 4, dims); !status) {
    return status.error();
  }
  return dims == 4 ? DataDims::kRows : DataDims::kLines;
}

base::Status parse_method(const json& text, const char* key, const std::string& where,
                          DataDims dims, const ExpressionScope& scope, Method& method) {
  if (!text.contains(key)) return {};
  const json& value = text[key];
  if (!value.is_string()) return base::invalid_argument(where + "." + key, "must be text");
  method.text = value.get<std::string>();
  if (method.text == "data.mean(dim=-1)") method.text = "mean";
  if (std::ranges::find(kMethods, method.text) != std::end(kMethods)) return {};
  auto expression = check_expression(method.text, dims, scope);
  if (!expression) {
    base::Error error = expression.error();
    error.where = where + "." + key + (error.where.empty() ? "" : ", " + error.where);
    return error;
  }
  method.expression = std::move(expression).value();
  return {};
}

// What a method over these tiles is checked against.
ExpressionScope scope_of(const CompressorContext& context, std::vector<std::int64_t> boundaries) {
  const std::int64_t features = boundaries.back();
  return {features,
          std::move(boundaries),
          context.max_lines,
          context.min_lines,
          context.max_rows,
          context.min_rows,
          context.limits,
          context.point.dims.size() - 2,
          context.point.dtype == "float64"};
}

std::vector<std::int64_t> first_boundaries(const CompressorContext& context, std::int64_t tiles) {
  return first_boundaries(context.placement, context.tensor_ranks, context.features, tiles);
}

base::Status parse_one_rank(const json& text, const std::string& where,
                            const CompressorContext& context, std::int64_t tiles, DataDims dims,
                            std::optional<OneRank>& out) {
  if (!text.contains("tiles_one_rank") && !text.contains("method_one_rank")) return {};
  const std::int64_t features = context.point.features;
  OneRank one_rank{std::min(tiles, features), {}};
  base::Status status = parse_integer(text, "tiles_one_rank", where, 1, features, one_rank.tiles);
  if (!status) return status;
  const ExpressionScope scope = scope_of(context, first_boundaries(context, one_rank.tiles));
  status = parse_method(text, "method_one_rank", where, dims, scope, one_rank.method);
  const auto& expression = one_rank.method.expression;
  if (status && expression && expression->reach != Reach::kTile) {
    return base::invalid_argument(where + ".method_one_rank", "looks beyond its own tile",
                                  "a rank reduces its own tiles: use dim=-1");
  }
  out = std::move(one_rank);
  return status;
}

}  // namespace

ParsedCompressor parse_tile(const json& text, const std::string& where,
                            const CompressorContext& context) {
  base::Status status = refuse_unknown_keys(
      text, where, {"kind", "tiles", "method", "tiles_one_rank", "method_one_rank", "data_dims"});
  const std::int64_t features = context.point.features;
  std::int64_t tiles = std::min(kDefaultTiles, features);
  if (status) status = parse_integer(text, "tiles", where, 1, features, tiles);
  if (!status) return status.error();
  const auto dims = parse_data_dims(text, where);
  if (!dims) return dims.error();
  std::optional<OneRank> one_rank;
  status = parse_one_rank(text, where, context, tiles, dims.value(), one_rank);
  if (!status) return status.error();
  // Keys of short prompts may be fewer than tiles.
  std::int64_t columns = context.features;
  if (one_rank) {
    columns = static_cast<std::int64_t>(first_boundaries(context, one_rank->tiles).size()) - 1;
  }
  const ExpressionScope scope =
      scope_of(context, tile_boundaries(columns, std::min(tiles, columns)));
  Method method;
  status = parse_method(text, "method", where, dims.value(), scope, method);
  if (!status) return status.error();
  return made<TileCompressor>(tiles, std::move(method), std::move(one_rank), dims.value());
}

}  // namespace tt::trace
