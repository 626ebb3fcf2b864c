#include "src/hub/legacy/native_plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "src/hub/fanout/subscription.h"

namespace tt::hub::dialect {
namespace {

using nlohmann::json;

constexpr std::int64_t kDefaultTiles = 96;
constexpr std::int64_t kDefaultMlpPixels = 64;
constexpr std::int64_t kMaxTiles = std::int64_t{1} << 32U;  // if the columns are not known
constexpr const char* kDefaultMethod = "data.mean(dim=-1)";
constexpr const char* kNativeMean = "mean";

// The number of tiles, at most the number of columns: with more, the dialects' padding gave empty
// tiles.
base::Result<std::int64_t> read_tiles(const json& configs, const char* key, std::int64_t missing,
                                      std::int64_t features, const std::string& where) {
  const json& value = member(configs, key);
  const std::int64_t most = features > 0 ? features : kMaxTiles;
  std::int64_t tiles = 0;
  if (value.is_null())
    tiles = missing;
  else if (value.is_number_unsigned())
    tiles = value.get<std::uint64_t>() > INT64_MAX ? most : value.get<std::int64_t>();
  else if (value.is_number_integer())
    tiles = value.get<std::int64_t>();
  if (tiles < 1) return base::invalid_argument(where + "." + key, "must be an integer from 1");
  return std::min(tiles, most);
}

base::Result<std::string> read_method(const json& configs, const char* key,
                                      const std::string& where) {
  const json& value = member(configs, key);
  if (!value.is_string() && !value.is_null()) {
    return base::invalid_argument(where + "." + key,
                                  std::string("must be a text such as \"") + kDefaultMethod + "\"");
  }
  const std::string text = value.is_null() ? kDefaultMethod : value.get<std::string>();
  return text == kDefaultMethod ? kNativeMean : text;
}

// One reduction to tiles: the members of the request for it, and the members of the native
// compressor.
struct Stage {
  const char* tiles_key;
  const char* method_key;
  const char* tiles;
  const char* method;
  std::int64_t default_tiles = kDefaultTiles;
};

base::Status add_stage(const Stage& stage, const json& configs, std::int64_t features,
                       const std::string& where, json& out) {
  const auto tiles = read_tiles(configs, stage.tiles_key, stage.default_tiles, features, where);
  if (!tiles) return tiles.error();
  const auto method = read_method(configs, stage.method_key, where);
  if (!method) return method.error();
  out[stage.tiles] = tiles.value();
  out[stage.method] = method.value();
  if (method.value() != kNativeMean)
    out["data_dims"] = 4;  // expressions of both tools get [batch, sequence, tiles, width]
  return {};
}

base::Result<json> tile_of(const json& configs, std::int64_t features, const std::string& where) {
  constexpr Stage kWhole = {"tiles", "method", "tiles", "method"};
  constexpr Stage kOneRank = {"tiles_one_rank", "method_one_rank", "tiles_one_rank",
                              "method_one_rank"};
  json tile = {{"kind", "tile"}};
  base::Status status = add_stage(kWhole, configs, features, where, tile);
  const bool has_one_rank = !member(configs, kOneRank.tiles_key).is_null() ||
                            !member(configs, kOneRank.method_key).is_null();
  if (status.ok() && has_one_rank) status = add_stage(kOneRank, configs, features, where, tile);
  return status.ok() ? base::Result<json>(std::move(tile)) : status.error();
}

// Accepts only a name of the run's own vectors: a file that a client names is never opened.
base::Result<json> projection_of(const json& configs, const json& facts, const std::string& where) {
  const json& path = member(configs, "vector_path");
  const std::string file = path.is_string() ? path.get<std::string>() : "";
  const std::string name = file.substr(file.find_last_of("/\\") + 1);
  std::string known;
  for (const json& vector : member(facts, "vectors")) {
    if (vector == name || vector == name.substr(0, name.rfind('.')))
      return json{{"kind", "projection"}, {"vectors", json::array({vector})}, {"normalize", true}};
    known += (known.empty() ? "" : ", ") + (vector.is_string() ? vector.get<std::string>() : "");
  }
  return base::invalid_argument(
      where + ".vector_path",
      name.empty() ? "must name a vector of the run"
                   : "the run has no vector \"" + name.substr(0, 64) + "\"",
      known.empty() ? "start the run with --tensor-tracer-vectors and a folder"
                    : "known vectors: " + known);
}

base::Result<json> tensor_tracer_compressor(const KnownPoint& known, const json& compressors,
                                            const json& facts, std::int64_t features) {
  const json& given = member(compressors, known.flag_name);
  const std::string where = "compressor_config." + std::string(known.flag_name);
  const json& type = member(given, "compressor_type");
  const json& configs = member(given, "compressor_configs");
  if ((!given.is_object() && !given.is_null()) || (!configs.is_object() && !configs.is_null())) {
    return base::invalid_argument(
        where, "must be an object with compressor_type and an object compressor_configs");
  }
  if (known.point == "InputTokens")
    return json{{"kind", "none"}};  // the chosen compressor has no effect
  if (type == "TileCompressor") return tile_of(configs, features, where + ".compressor_configs");
  if (type == "ProjectionCompressor")
    return projection_of(configs, facts, where + ".compressor_configs");
  return json{{"kind", type == "NoOpCompressor" ? "none" : "empty"}};
}

base::Result<json> mega_scope_compressor(const KnownPoint& known, const json& compressors,
                                         std::int64_t features) {
  if (known.tiles.empty()) return json{{"kind", "none"}};
  const json& given = member(compressors, known.tiles);
  const std::string where = "compressor_config." + std::string(known.tiles);
  if (!given.is_object() && !given.is_null())
    return base::invalid_argument(where, "must be an object with pixels and method");
  const Stage pixels = {"pixels", "method", "tiles", "method",
                        known.tiles == "MLP" ? kDefaultMlpPixels : kDefaultTiles};
  json tile = {{"kind", "tile"}};
  const base::Status status = add_stage(pixels, given, features, where, tile);
  return status.ok() ? base::Result<json>(std::move(tile)) : status.error();
}

std::int64_t columns_of(const json& compressor, std::int64_t features) {
  const json& kind = member(compressor, "kind");
  if (kind == "tile") return compressor.at("tiles").get<std::int64_t>();
  return kind == "none" ? std::max<std::int64_t>(features, 1) : kind == "projection" ? 1 : 0;
}

base::Status check_size(const KnownPoint& known, const json& compressor, std::int64_t features,
                        const json& facts) {
  const bool by_head = known.point == "RawAttentionScore";
  double numbers = known.point == "InputTokens" ? 2 : 1;
  numbers *= by_head ? static_cast<double>(fact(facts, {"model", "num_attention_heads"})) : 1;
  numbers *= static_cast<double>(fact(facts, {"micro_batch_size"}));
  numbers *= static_cast<double>(fact(facts, {"model", "seq_length"}));
  numbers *= static_cast<double>(columns_of(compressor, features));
  if (numbers <= static_cast<double>(kMaxNumbers)) return {};
  return base::invalid_argument("visualization_flags." + std::string(known.flag_name),
                                "an update would have " +
                                    std::to_string(static_cast<std::int64_t>(numbers)) +
                                    " numbers, more than " + std::to_string(kMaxNumbers),
                                "choose fewer tiles, or use the native protocol");
}

// For example "0-3": all micro-batches of a step.
std::string micro_batches(const json& facts) {
  const std::int64_t rows =
      fact(facts, {"micro_batch_size"}) * std::max<std::int64_t>(fact(facts, {"mesh", "data"}), 1);
  const std::int64_t count = rows > 0 ? fact(facts, {"global_batch_size"}) / rows : 1;
  return count > 1 ? "0-" + std::to_string(count - 1) : "0";
}

base::Result<json> make_entry(Dialect dialect, const KnownPoint& known, const json& compressors,
                              const json& facts) {
  const json& point = find_point(facts, known.point);
  const std::int64_t features = fact(point, {"features"});
  auto compressor = dialect == Dialect::kMegaScope
                        ? mega_scope_compressor(known, compressors, features)
                        : tensor_tracer_compressor(known, compressors, facts, features);
  if (!compressor) return compressor;
  if (auto fits = check_size(known, compressor.value(), features, facts); !fits.ok())
    return fits.error();
  return json{{"point", known.point},
              {"direction", "value"},
              {"every", 1},
              {"rows", 0},
              {"compressor", std::move(compressor).value()},
              {"dtype", known.point == "InputTokens" ? "i32" : "f32"},
              {"micro_batches", micro_batches(facts)},
              {"phases", {"train", "eval"}},
              {"eval_forwards", "all"}};
}

}  // namespace

std::int64_t fact(const json& facts, std::initializer_list<std::string_view> path) {
  const json* value = &facts;
  for (const std::string_view name : path) value = &member(*value, name);
  return value->is_number_integer() ? value->get<std::int64_t>() : 0;
}

base::Result<json> make_plan(Dialect dialect, const json& message, const json& facts) {
  const json& flags = member(message, "visualization_flags");
  const json& compressors = member(message, "compressor_config");
  for (const auto& [name, value] :
       {std::pair("visualization_flags", &flags), std::pair("compressor_config", &compressors)})
    if (!value->is_object() && !value->is_null())
      return base::invalid_argument(name, "must be an object");
  json entries = json::array();
  for (const KnownPoint& known : points_of(dialect)) {
    const json& flag = member(flags, known.flag_name);
    if (flag.is_null() ? !known.on_by_default : !is_on(flag)) continue;
    auto entry = make_entry(dialect, known, compressors, facts);
    if (!entry) return entry;
    entries.push_back(std::move(entry).value());
  }
  return json{{"entries", std::move(entries)}};
}

}  // namespace tt::hub::dialect
