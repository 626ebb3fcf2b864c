#include <algorithm>
#include <string_view>

#include "src/trace/compress/kinds.h"
#include "src/trace/json_fields.h"

namespace tt::trace {
namespace {

using nlohmann::json;

struct Kind {
  std::string_view name;
  ParsedCompressor (*parse)(const json&, const std::string&, const CompressorContext&);
};

constexpr Kind kKinds[] = {{"tile", parse_tile},   {"none", parse_none},
                           {"empty", parse_empty}, {"stats", parse_stats},
                           {"topk", parse_topk},   {"projection", parse_projection}};

json default_of(const points::Place& point) {
  if (point.features == 0) return {{"kind", "none"}};
  if (point.is_vocabulary) return {{"kind", "topk"}};
  return {{"kind", "tile"}};
}

}  // namespace

base::Result<std::shared_ptr<const Compressor>> parse_compressor(const json& text,
                                                                 const std::string& where,
                                                                 const CompressorContext& context) {
  if (text.is_null()) return parse_compressor(default_of(context.point), where, context);
  if (!text.is_object() || !text.contains("kind") || !text["kind"].is_string()) {
    return base::invalid_argument(where, "must be an object with a \"kind\"",
                                  "such as {\"kind\": \"tile\"}");
  }
  const auto name = text["kind"].get<std::string>();
  const auto* kind = std::ranges::find(kKinds, name, &Kind::name);
  if (kind == std::end(kKinds)) {
    std::string names;
    for (const Kind& known : kKinds) names += (names.empty() ? "" : ", ") + std::string(known.name);
    return base::invalid_argument(where, "unknown compressor \"" + name + "\"",
                                  "known compressors: " + names);
  }
  if (context.point.features == 0 && name != "none" && name != "empty") {
    return base::invalid_argument(where,
                                  context.point.name + " holds whole numbers and is not compressed",
                                  "use {\"kind\": \"none\"}");
  }
  return kind->parse(text, where, context);
}

}  // namespace tt::trace
