#include <algorithm>
#include <optional>
#include <utility>

#include "src/trace/compress/kinds.h"
#include "src/trace/compress/tile_packing.h"
#include "src/trace/json_fields.h"

namespace tt::trace {
namespace {

using nlohmann::json;

constexpr std::int64_t kDefaultTiles = 64;
constexpr const char* kMethods[] = {"mean", "sum", "absmax"};

template <typename Number>
std::shared_ptr<const Packing> make_packing(const std::string& method, const LogicalShape& shape,
                                            const std::vector<std::int64_t>& boundaries) {
  if (method == "sum") {
    return std::make_shared<TilePacking<Number, TileMethod::kSum>>(shape, boundaries);
  }
  if (method == "absmax") {
    return std::make_shared<TilePacking<Number, TileMethod::kAbsoluteMax>>(shape, boundaries);
  }
  return std::make_shared<TilePacking<Number, TileMethod::kMean>>(shape, boundaries);
}

std::shared_ptr<const Packing> make_packing(const std::string& method, const LogicalShape& shape,
                                            const std::vector<std::int64_t>& boundaries,
                                            bool is_double) {
  return is_double ? make_packing<double>(method, shape, boundaries)
                   : make_packing<float>(method, shape, boundaries);
}

// Tensor Tracer's two stages: every rank reduces its own columns to tiles, the leader reduces those
// to tiles once more. Mesh-dependent by definition.
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
// gets its share of them. Nothing if a segment has no tile or fewer columns than tiles.
std::optional<std::vector<std::int64_t>> tiles_of_ranks(const Placement& placement, int ranks,
                                                        std::int64_t features, std::int64_t tiles) {
  std::vector<std::int64_t> boundaries = {features};
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<Interval> held = intervals_of_rank(placement, rank, ranks);
    const std::int64_t width = local_size(placement, rank, ranks);
    for (const Interval& at : held) {
      const std::int64_t size = at.end - at.begin;
      const std::int64_t share =
          tiles * (at.local_begin + size) / width - tiles * at.local_begin / width;
      if (share < 1 || share > size) return std::nullopt;
      if (at.owner != rank) continue;
      for (std::int64_t t = 0; t < share; ++t) {
        boundaries.push_back(at.begin + t * size / share);
      }
    }
  }
  std::ranges::sort(boundaries);
  return boundaries;
}

struct OneRank {
  std::int64_t tiles = 0;
  std::string method;
};

class TileCompressor : public Compressor {
 public:
  TileCompressor(std::int64_t tiles, std::string method, std::optional<OneRank> one_rank)
      : tiles_(tiles), method_(std::move(method)), one_rank_(std::move(one_rank)) {}

  json to_json() const override {
    json text = {{"kind", "tile"}, {"tiles", tiles_}, {"method", method_}};
    if (one_rank_) {
      text["tiles_one_rank"] = one_rank_->tiles;
      text["method_one_rank"] = one_rank_->method;
    }
    return text;
  }
  protocol::RecordCompressor code() const override { return protocol::RecordCompressor::kTile; }

  std::shared_ptr<const Packing> packing(const LogicalShape& shape, bool is_double) const override {
    const bool is_cut = shape.placement.kind == Placement::Kind::kShard && shape.ranks > 1 &&
                        shape.placement.dim == 2;
    if (!one_rank_ || !is_cut) {
      // Keys of short prompts may be fewer than tiles.
      const std::int64_t tiles = std::min(tiles_, shape.features);
      return make_packing(method_, shape, tile_boundaries(shape.features, tiles), is_double);
    }
    const auto boundaries =
        tiles_of_ranks(shape.placement, shape.ranks, shape.features, one_rank_->tiles).value();
    LogicalShape joined = shape;
    joined.features = static_cast<std::int64_t>(boundaries.size()) - 1;
    joined.lines = shape.wanted_lines();
    joined.first_line = 0;
    joined.last_line = joined.lines;
    joined.placement = Placement::replicate();
    joined.ranks = 1;
    return std::make_shared<TwoStagePacking>(
        make_packing(one_rank_->method, shape, boundaries, is_double),
        make_packing(method_, joined, tile_boundaries(joined.features, tiles_), is_double),
        joined.features, joined.lines);
  }

 private:
  const std::int64_t tiles_;
  const std::string method_;
  const std::optional<OneRank> one_rank_;
};

base::Status parse_method(const json& text, const char* key, const std::string& where,
                          std::string& method) {
  if (!text.contains(key)) return {};
  const json& value = text[key];
  if (!value.is_string()) return wrong(where + "." + key, "must be text");
  method = value.get<std::string>();
  if (method == "data.mean(dim=-1)") method = "mean";
  if (std::ranges::find(kMethods, method) != std::end(kMethods)) return {};
  return wrong(where + "." + key, "unknown method \"" + method + "\"",
               "use \"mean\", \"sum\", \"absmax\"");
}

base::Status parse_one_rank(const json& text, const std::string& where,
                            const CompressorContext& context, std::int64_t tiles,
                            std::optional<OneRank>& out) {
  if (!text.contains("tiles_one_rank") && !text.contains("method_one_rank")) return {};
  OneRank one_rank{std::min(tiles, context.point.features), "mean"};
  base::Status status =
      parse_integer(text, "tiles_one_rank", where, 1, context.point.features, one_rank.tiles);
  if (status) status = parse_method(text, "method_one_rank", where, one_rank.method);
  if (!status) return status;
  const bool is_cut =
      context.placement.kind == Placement::Kind::kShard && context.placement.dim == 2;
  if (is_cut && context.tensor_ranks > 1) {
    const auto boundaries = tiles_of_ranks(context.placement, context.tensor_ranks,
                                           context.point.features, one_rank.tiles);
    const bool enough = boundaries && tiles <= static_cast<std::int64_t>(boundaries->size()) - 1;
    if (!enough) {
      return wrong(where + ".tiles_one_rank",
                   std::to_string(one_rank.tiles) +
                       " tiles do not fit the columns that a rank of " + context.point.name +
                       " holds",
                   "leave it out: tiles are then those of the whole tensor");
    }
  }
  out = one_rank;
  return {};
}

}  // namespace

ParsedCompressor parse_tile(const json& text, const std::string& where,
                            const CompressorContext& context) {
  base::Status status = refuse_unknown_keys(
      text, where, {"kind", "tiles", "method", "tiles_one_rank", "method_one_rank"});
  std::int64_t tiles = std::min(kDefaultTiles, context.point.features);
  std::string method = "mean";
  std::optional<OneRank> one_rank;
  if (status) status = parse_integer(text, "tiles", where, 1, context.point.features, tiles);
  if (status) status = parse_method(text, "method", where, method);
  if (status) status = parse_one_rank(text, where, context, tiles, one_rank);
  if (!status) return status.error();
  return made<TileCompressor>(tiles, method, one_rank);
}

}  // namespace tt::trace
