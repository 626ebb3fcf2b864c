#include "tensor_tracer/trace/prompt_plan.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "src/trace/compress/kinds.h"
#include "tensor_tracer/trace/plan_cost.h"

namespace tt::trace {
namespace {

using nlohmann::json;

constexpr const char* kName = "typed prompt";
constexpr int kLensRanks = 5;

// How much a default plan sends; each detail sends less than the one before.
struct Detail {
  std::string_view dtype;  // of hidden states and attention
  std::int64_t keys;       // tiles of a row of attention; 0: every key, -1: no attention
  std::int64_t last;       // tokens; 0: all
};
constexpr Detail kDetails[] = {{"f32", 0, 0},  {"u8", 0, 0},   {"u8", 64, 0},
                               {"u8", 64, 64}, {"u8", 32, 16}, {"u8", -1, 16}};

json projection_on_vectors(const PlanContext& context) {
  std::vector<std::string> vectors;
  if (context.vectors != nullptr) vectors = context.vectors->names();
  if (vectors.empty()) return {};
  if (vectors.size() > kMaxVectors) vectors.resize(kMaxVectors);
  return {{"kind", "projection"}, {"vectors", std::move(vectors)}};
}

json plan_of(const Detail& detail, const PlanContext& context, std::int64_t tokens) {
  const std::int64_t first = detail.last > 0 ? std::max<std::int64_t>(tokens - detail.last, 0) : 0;
  json entries = json::array({{{"point", "InputTokens"}}});
  const auto watch = [&](json entry) {
    if (!context.places->find(entry["point"].get<std::string>())) return;
    if (first > 0) entry["tokens"] = {first, tokens};
    entries.push_back(std::move(entry));
  };
  watch({{"point", "Logits"}, {"compressor", {{"kind", "topk"}}}});
  watch({{"point", "LogitLens"}, {"compressor", {{"kind", "topk"}, {"k", kLensRanks}}}});
  watch({{"point", "HiddenStates"}, {"dtype", detail.dtype}});
  if (detail.keys >= 0) {
    json compressor = {{"kind", "none"}};
    if (detail.keys > 0) compressor = {{"kind", "tile"}, {"tiles", detail.keys}};
    watch({{"point", "RawAttentionScore"},
           {"compressor", std::move(compressor)},
           {"dtype", detail.dtype}});
  }
  if (json projection = projection_on_vectors(context); !projection.is_null())
    watch({{"point", "HiddenStates"}, {"compressor", std::move(projection)}});
  return {{"entries", std::move(entries)}};
}

std::size_t bytes_of_run(const Plan& plan, const PlanContext& context) {
  double bytes = 0.0;
  for (const EntryCost& cost : cost_of(plan, context, {.monitor_interval = 1})) bytes += cost.bytes;
  return static_cast<std::size_t>(bytes);
}

}  // namespace

json default_prompt_plan(const PlanContext& context, std::int64_t tokens, std::size_t max_bytes) {
  for (const Detail& detail : kDetails) {
    json plan = plan_of(detail, context, tokens);
    if (parse_prompt_plan(plan, context, tokens, max_bytes)) return plan;
  }
  return {{"entries", {{{"point", "InputTokens"}}}}};
}

base::Result<json> entries_for(const json& text, const std::string& name) {
  const json entries = text.is_object() ? text.value("entries", json()) : json();
  if (!entries.is_array()) return base::invalid_argument("plan.entries", "must be a list");
  json named = json::array();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    json entry = entries[i];
    const std::string where = "plan.entries[" + std::to_string(i) + "]";
    if (!entry.is_object()) return base::invalid_argument(where, "must be an object");
    if (entry.contains("prompts")) {
      return base::invalid_argument(where + ".prompts", "the entry takes the typed prompt",
                                    "leave it out");
    }
    entry["prompts"] = name;
    named.push_back(std::move(entry));
  }
  return named;
}

base::Result<Plan> parse_prompt_plan(const json& text, const PlanContext& context,
                                     std::int64_t tokens, std::size_t max_bytes) {
  auto entries = entries_for(text, kName);
  if (!entries) return entries.error();
  PlanContext alone = context;
  alone.response_tokens = 0;
  alone.prompt_sets = points::PromptSets({{.name = kName, .tokens = tokens}});
  auto plan = parse_plan({{"entries", std::move(entries).value()}}, alone, 0);
  if (!plan) return plan.error();
  for (PlanEntry& entry : plan.value().entries) {
    entry.prompt_set = kTypedPrompt;
    entry.every = 1;
  }
  const std::size_t bytes = bytes_of_run(plan.value(), alone);
  if (bytes > max_bytes) {
    return base::Error{"too_large",
                       "the plan would send " + std::to_string(bytes) +
                           " bytes of records, an answer holds " + std::to_string(max_bytes),
                       "plan", "watch fewer layers or tokens, or reduce them more"};
  }
  return plan;
}

}  // namespace tt::trace
