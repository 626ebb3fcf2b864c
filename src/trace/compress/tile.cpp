#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "src/trace/compress/cells.h"
#include "src/trace/compress/kinds.h"
#include "src/trace/compress/tile_expression.h"
#include "src/trace/device/reducers.h"
#include "src/trace/json_fields.h"
#include "tensor_tracer/trace/reductions.h"

namespace tt::trace {
namespace {

using nlohmann::json;

constexpr std::int64_t kDefaultTiles = 64;
constexpr const char* kMethods[] = {"mean", "sum", "absmax"};

struct Method {
  std::string text = "mean";
  std::optional<TileExpression> expression;  // nullopt: built in
};

template <typename Number_>
struct TileMethod : CellMethod {
  using Number = Number_;
  using Value = Number_;
  static constexpr std::string_view kCompressor = "tile";
  std::int64_t values(std::int64_t /*width*/) const { return 1; }
};

// The largest |x|; NaN if there is one.
template <typename Number>
struct AbsoluteMaxMethod : TileMethod<Number> {
  AbsoluteMaxMethod kernel(const CaptureFacts& /*facts*/) const { return {}; }
  template <typename Element>
  device::Prepared<device::AbsoluteMaxReducer<Element>> device(const CaptureFacts&,
                                                               at::Device) const {
    return {};
  }
  void reduce(const Cell<Number>& cell, Number* out) const {
    *out = 0;
    for (std::int64_t i = 0; i < cell.width; ++i) {
      const Number size = std::abs(cell.data[i]);
      if (!(size <= *out)) *out = std::isnan(*out) ? *out : size;
    }
  }
};

template <typename Number>
struct SumMethod : TileMethod<Number> {
  SumMethod kernel(const CaptureFacts& /*facts*/) const { return {}; }
  template <typename Element>
  device::Prepared<device::SumReducer<Element>> device(const CaptureFacts&, at::Device) const {
    return {};
  }
  void reduce(const Cell<Number>& cell, Number* out) const {
    *out = fixed_order_sum(cell.data, cell.width);
  }
  void reduce_neighbours(const Cell<Number>& all, const Number* readable_end,
                         std::span<const std::int32_t> widths, Number* out) const {
    fixed_order_sums(all.data, readable_end, widths.data(),
                     static_cast<std::int64_t>(widths.size()), out);
  }
};

template <typename Number>
struct MeanMethod : TileMethod<Number> {
  MeanMethod kernel(const CaptureFacts& /*facts*/) const { return {}; }
  template <typename Element>
  device::Prepared<device::MeanReducer<Element>> device(const CaptureFacts&, at::Device) const {
    return {};
  }
  void reduce(const Cell<Number>& cell, Number* out) const {
    *out = fixed_order_sum(cell.data, cell.width) / static_cast<Number>(cell.width);
  }
  void reduce_neighbours(const Cell<Number>& all, const Number* readable_end,
                         std::span<const std::int32_t> widths, Number* out) const {
    SumMethod<Number>().reduce_neighbours(all, readable_end, widths, out);
    for (std::size_t i = 0; i < widths.size(); ++i) out[i] /= static_cast<Number>(widths[i]);
  }
};

std::shared_ptr<const Packing> make_packing(const Method& method, const LogicalShape& shape,
                                            const std::vector<std::int64_t>& boundaries,
                                            bool is_double) {
  if (method.expression)
    return make_expression_packing(*method.expression, shape, boundaries, is_double);
  const CellLayout layout = make_cell_layout(shape, 1, boundaries);
  const auto record = shape.result_shape(static_cast<std::int64_t>(boundaries.size()) - 1);
  if (method.text == "sum") return make_cell_packing<SumMethod>(is_double, shape, layout, record);
  if (method.text == "absmax")
    return make_cell_packing<AbsoluteMaxMethod>(is_double, shape, layout, record);
  return make_cell_packing<MeanMethod>(is_double, shape, layout, record);
}

// The two stages of Tensor Tracer: every rank reduces its columns to tiles, then the leader reduces
// these tiles to tiles again. Both stages always run. The result depends on the mesh by definition.
class TwoStagePacking : public Packing {
 public:
  // `between`: [rows, lines, tiles] of the first stage.
  TwoStagePacking(std::shared_ptr<const Packing> first, std::shared_ptr<const Packing> second,
                  std::vector<std::int64_t> between, bool is_double)
      : first_(std::move(first)),
        second_(std::move(second)),
        between_(std::move(between)),
        options_(at::device(at::kCPU).dtype(is_double ? at::kDouble : at::kFloat)) {}

  std::size_t part_bytes(std::size_t rank) const override { return first_->part_bytes(rank); }
  std::vector<std::int64_t> shape() const override { return second_->shape(); }
  const PackKernels& kernels() const override { return first_->kernels(); }
  void join(const CaptureFacts& facts, const std::vector<const std::byte*>& parts,
            std::byte* out) const override {
    const at::Tensor tiles = at::empty(between_, options_);
    first_->join(facts, parts, static_cast<std::byte*>(tiles.mutable_data_ptr()));
    std::vector<double> part((second_->part_bytes(0) + 7) / 8);
    second_->pack(facts, 0, tiles, std::as_writable_bytes(std::span(part)));
    second_->join(facts, {reinterpret_cast<const std::byte*>(part.data())}, out);
  }

 private:
  const std::shared_ptr<const Packing> first_, second_;
  const std::vector<std::int64_t> between_;
  const at::TensorOptions options_;
};

// Boundaries, in logical columns, of `tiles` tiles for each rank. Each segment of the rank's
// columns gets a proportional number of tiles: at least one, and at most one per column.
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
      for (std::int64_t t = 0; t < count; ++t) boundaries.push_back(at.begin + t * size / count);
    }
  }
  std::ranges::sort(boundaries);
  return boundaries;
}

// Boundaries of the first stage's tiles: over each rank's columns, or over all columns if every
// rank holds all columns.
std::vector<std::int64_t> first_boundaries(const mesh::Placement& placement, int ranks,
                                           std::int64_t features, std::int64_t tiles) {
  const bool is_sharded = placement.is_sharded() && placement.dim == 2;
  return is_sharded ? tiles_of_ranks(placement, ranks, features, tiles)
                    : tile_boundaries(features, std::min(tiles, features));
}

struct OneRank {
  std::int64_t tiles = 0;
  Method method;
};

struct TileOptions {
  std::int64_t tiles = 0;
  Method method;
  std::optional<OneRank> one_rank;
  DataDims dims = DataDims::kLines;
};

json to_json(const TileOptions& options) {
  json text = {{"kind", "tile"}, {"tiles", options.tiles}, {"method", options.method.text}};
  if (options.one_rank) {
    text["tiles_one_rank"] = options.one_rank->tiles;
    text["method_one_rank"] = options.one_rank->method.text;
  }
  if (options.dims == DataDims::kRows) text["data_dims"] = 4;
  return text;
}

std::shared_ptr<const Packing> tile_packing(const TileOptions& options, const LogicalShape& shape,
                                            bool is_double) {
  const auto boundaries_of = [&](std::int64_t columns) {
    return tile_boundaries(columns, std::min(options.tiles, columns));
  };
  if (!options.one_rank)
    return make_packing(options.method, shape, boundaries_of(shape.features), is_double);
  const OneRank& one_rank = *options.one_rank;
  const auto boundaries =
      first_boundaries(shape.placement, shape.placement_ranks(), shape.features, one_rank.tiles);
  LogicalShape joined = shape;
  joined.features = static_cast<std::int64_t>(boundaries.size()) - 1;
  joined.lines = shape.captured_lines();
  joined.first_line = 0;
  joined.last_line = joined.lines;
  joined.placement = joined.contexts = mesh::Placement::replicate();
  joined.ranks = 1;
  return std::make_shared<TwoStagePacking>(
      make_packing(one_rank.method, shape, boundaries, is_double),
      make_packing(options.method, joined, boundaries_of(joined.features), is_double),
      std::vector{joined.rows, joined.lines, joined.features}, is_double);
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

std::vector<std::int64_t> first_boundaries(const CompressorContext& context, std::int64_t tiles) {
  return first_boundaries(context.placement, context.tensor_ranks, context.features, tiles);
}

base::Status parse_one_rank(const json& text, const std::string& where,
                            const CompressorContext& context, TileOptions& options) {
  if (!text.contains("tiles_one_rank") && !text.contains("method_one_rank")) return {};
  const std::int64_t features = context.point.features;
  OneRank one_rank{std::min(options.tiles, features), {}};
  base::Status status = parse_integer(text, "tiles_one_rank", where, 1, features, one_rank.tiles);
  if (!status) return status;
  const ExpressionScope scope{context, first_boundaries(context, one_rank.tiles)};
  status = parse_method(text, "method_one_rank", where, options.dims, scope, one_rank.method);
  const auto& expression = one_rank.method.expression;
  if (status && expression && expression->reach != Reach::kTile) {
    return base::invalid_argument(where + ".method_one_rank", "looks beyond its own tile",
                                  "a rank reduces its own tiles: use dim=-1");
  }
  options.one_rank = std::move(one_rank);
  return status;
}

}  // namespace

ParsedCompressor parse_tile(const json& text, const std::string& where,
                            const CompressorContext& context) {
  base::Status status = refuse_unknown_keys(
      text, where, {"kind", "tiles", "method", "tiles_one_rank", "method_one_rank", "data_dims"});
  const std::int64_t features = context.point.features;
  TileOptions options{.tiles = std::min(kDefaultTiles, features), .method = {}, .one_rank = {}};
  if (status) status = parse_integer(text, "tiles", where, 1, features, options.tiles);
  std::int64_t dims = 3;
  if (status) status = parse_integer(text, "data_dims", where, 3, 4, dims);
  options.dims = dims == 4 ? DataDims::kRows : DataDims::kLines;
  if (status) status = parse_one_rank(text, where, context, options);
  if (!status) return status.error();
  // Short prompts may have fewer keys than tiles.
  std::int64_t columns = context.features;
  if (options.one_rank) {
    columns =
        static_cast<std::int64_t>(first_boundaries(context, options.one_rank->tiles).size()) - 1;
  }
  const ExpressionScope scope{context, tile_boundaries(columns, std::min(options.tiles, columns))};
  status = parse_method(text, "method", where, options.dims, scope, options.method);
  if (!status) return status.error();
  return parsed({.form = to_json(options),
                 .code = protocol::RecordCompressor::kTile,
                 .packing = [options](const LogicalShape& shape, bool is_double) {
                   return tile_packing(options, shape, is_double);
                 }});
}

}  // namespace tt::trace
