#include "tensor_tracer/trace/plan.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

namespace tt::trace {
namespace {

using nlohmann::json;

constexpr std::int64_t kDefaultTiles = 64;

base::Error wrong(std::string where, std::string message, std::string remedy = "") {
  return {"invalid_argument", std::move(message), std::move(where), std::move(remedy)};
}

std::string names_of(const Catalogue& catalogue) {
  std::string names;
  for (const PointDescription& point : catalogue.points()) {
    names += (names.empty() ? "" : ", ") + point.name;
  }
  return names;
}

base::Status refuse_unknown_keys(const json& object, const std::string& where,
                                 std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(known, key) == known.end()) {
      return wrong(where, "unknown key \"" + key + "\"");
    }
  }
  return {};
}

// "3" or "1-4", inside [first, last].
std::optional<std::pair<int, int>> parse_range(std::string_view text) {
  const auto dash = text.find('-');
  const auto number = [](std::string_view part) -> std::optional<int> {
    int value = 0;
    const auto [end, code] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (code != std::errc() || end != part.data() + part.size()) return std::nullopt;
    return value;
  };
  const auto first = number(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : number(text.substr(dash + 1));
  if (!first || !last) return std::nullopt;
  return std::pair{*first, *last};
}

base::Status parse_layers(const json& value, const PointDescription& point,
                          const std::string& where, PlanEntry& entry) {
  entry.takes_layer.assign(static_cast<std::size_t>(point.last_layer) + 1, value.is_null());
  if (value.is_null()) return {};
  if (!value.is_string()) return wrong(where, "layers must be text such as \"1-4,8\"");
  entry.layers = value.get<std::string>();
  std::string_view rest = entry.layers;
  while (true) {
    const auto comma = rest.find(',');
    const auto range = parse_range(rest.substr(0, comma));
    if (!range || range->first > range->second) {
      return wrong(where, "\"" + entry.layers + "\" is not a list of layer ranges such as 1-4,8");
    }
    if (range->first < point.first_layer || range->second > point.last_layer) {
      return wrong(where,
                   "layers " + std::string(rest.substr(0, comma)) + " are outside " +
                       std::to_string(point.first_layer) + "-" + std::to_string(point.last_layer) +
                       " of " + point.name,
                   "layers count from 1");
    }
    for (int layer = range->first; layer <= range->second; ++layer) {
      entry.takes_layer[static_cast<std::size_t>(layer)] = true;
    }
    if (comma == std::string_view::npos) return {};
    rest.remove_prefix(comma + 1);
  }
}

base::Status parse_integer(const json& object, const char* key, const std::string& where,
                           std::int64_t least, std::int64_t most, std::int64_t& out) {
  if (!object.contains(key)) return {};
  const json& value = object[key];
  const bool fits = value.is_number_unsigned() ? value.get<std::uint64_t>() <= 1ULL << 62
                                               : value.is_number_integer();
  if (!fits || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most) {
    return wrong(where + "." + key, value.dump() + " is not a whole number from " +
                                        std::to_string(least) + " to " + std::to_string(most));
  }
  out = value.get<std::int64_t>();
  return {};
}

base::Status parse_phases(const json& value, const std::string& where, PlanEntry& entry) {
  if (value.is_null()) return {};
  entry.in_train = entry.in_eval = false;
  const bool is_list = value.is_array() && !value.empty();
  for (const json& phase : is_list ? value : json::array({value})) {
    if (is_list && phase == "train") {
      entry.in_train = true;
    } else if (is_list && phase == "eval") {
      entry.in_eval = true;
    } else {
      return wrong(where, "phases must be a list of \"train\" and \"eval\"");
    }
  }
  return {};
}

base::Status parse_compressor(const json& value, const PointDescription& point,
                              const std::string& where, PlanEntry& entry) {
  const bool columns = point.features > 0;
  entry.tiles = columns ? std::min(kDefaultTiles, point.features) : 0;
  if (value.is_null()) return {};
  if (!value.is_object() || !value.contains("kind") || !value["kind"].is_string()) {
    return wrong(where, "compressor must be {\"kind\": \"tile\" or \"none\", …}");
  }
  const std::string kind = value["kind"];
  if (kind == "none") {
    entry.tiles = 0;
    return refuse_unknown_keys(value, where, {"kind"});
  }
  if (kind != "tile")
    return wrong(where, "unknown compressor \"" + kind + "\"", "use tile or none");
  if (!columns) return wrong(where, point.name + " cannot be tiled", "use {\"kind\": \"none\"}");
  if (auto status = refuse_unknown_keys(value, where, {"kind", "tiles"}); !status) return status;
  return parse_integer(value, "tiles", where, 1, point.features, entry.tiles);
}

base::Status parse_dtype(const json& value, const PointDescription& point, const std::string& where,
                         PlanEntry& entry) {
  const bool ids = point.flag == PointFlag::kInputTokens;
  entry.dtype = ids ? WireDtype::kI32 : WireDtype::kF32;
  if (value.is_null()) return {};
  if (ids) {
    if (value == "i32") return {};
    return wrong(where, point.name + " travels as i32", "leave dtype out");
  }
  if (value == "f32")
    entry.dtype = WireDtype::kF32;
  else if (value == "f64")
    entry.dtype = WireDtype::kF64;
  else if (value == "bf16")
    entry.dtype = WireDtype::kBf16;
  else
    return wrong(where, "unknown dtype " + value.dump(), "use \"f32\", \"f64\" or \"bf16\"");
  return {};
}

base::Result<PlanEntry> parse_entry(const json& text, const std::string& where,
                                    const Catalogue& catalogue, const PlanLimits& limits) {
  if (!text.is_object()) return wrong(where, "must be an object");
  if (auto status = refuse_unknown_keys(
          text, where, {"point", "layers", "every", "phases", "rows", "compressor", "dtype"});
      !status) {
    return status.error();
  }
  const json name = text.value("point", json());
  const auto index = name.is_string() ? catalogue.find(name.get<std::string>()) : std::nullopt;
  if (!index) {
    return wrong(where + ".point", name.is_null() ? "missing" : "unknown point " + name.dump(),
                 "known points: " + names_of(catalogue));
  }
  PlanEntry entry;
  entry.point = *index;
  const PointDescription& point = catalogue.points()[*index];
  const auto part = [&](const char* key) { return text.value(key, json()); };
  base::Status status = parse_layers(part("layers"), point, where + ".layers", entry);
  if (status) status = parse_integer(text, "every", where, 1, limits.max_every, entry.every);
  if (status) status = parse_phases(part("phases"), where + ".phases", entry);
  if (status) status = parse_integer(text, "rows", where, 0, 1 << 20, entry.rows);
  if (status) {
    status = parse_compressor(part("compressor"), point, where + ".compressor", entry);
  }
  if (status) status = parse_dtype(part("dtype"), point, where + ".dtype", entry);
  if (!status) return status.error();
  return entry;
}

const char* to_string(WireDtype dtype) {
  switch (dtype) {
    case WireDtype::kF64:
      return "f64";
    case WireDtype::kF32:
      return "f32";
    case WireDtype::kBf16:
      return "bf16";
    case WireDtype::kI32:
      return "i32";
  }
  return "";
}

}  // namespace

base::Result<Plan> parse_plan(const json& text, const Catalogue& catalogue, std::uint32_t number,
                              const PlanLimits& limits) {
  if (!text.is_object()) return wrong("plan", "must be an object");
  if (auto status = refuse_unknown_keys(text, "plan", {"number", "entries"}); !status) {
    return status.error();
  }
  const json entries = text.value("entries", json());
  if (!entries.is_array()) return wrong("plan.entries", "must be a list");
  if (entries.size() > limits.max_entries) {
    return wrong("plan.entries", std::to_string(entries.size()) + " entries are more than " +
                                     std::to_string(limits.max_entries));
  }
  Plan plan;
  plan.number = number;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    auto entry =
        parse_entry(entries[i], "plan.entries[" + std::to_string(i) + "]", catalogue, limits);
    if (!entry) return entry.error();
    plan.entries.push_back(std::move(entry).value());
  }
  return plan;
}

json to_json(const Plan& plan, const Catalogue& catalogue) {
  json entries = json::array();
  for (const PlanEntry& entry : plan.entries) {
    const PointDescription& point = catalogue.points()[entry.point];
    json phases = json::array();
    if (entry.in_train) phases.push_back("train");
    if (entry.in_eval) phases.push_back("eval");
    json item = {{"point", point.name},
                 {"every", entry.every},
                 {"phases", phases},
                 {"rows", entry.rows},
                 {"compressor", entry.tiles == 0 ? json{{"kind", "none"}}
                                                 : json{{"kind", "tile"}, {"tiles", entry.tiles}}},
                 {"dtype", to_string(entry.dtype)}};
    if (!entry.layers.empty()) item["layers"] = entry.layers;
    entries.push_back(std::move(item));
  }
  return {{"number", plan.number}, {"entries", std::move(entries)}};
}

json default_plan() {
  return {{"entries", {{{"point", "InputTokens"}}, {{"point", "HiddenStates"}}}}};
}

}  // namespace tt::trace
