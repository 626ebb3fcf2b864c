#include "tensor_tracer/trace/plan.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/trace/compress/kinds.h"
#include "src/trace/json_fields.h"
#include "src/trace/pass_shape.h"
#include "tensor_tracer/base/ranges.h"

namespace tt::trace {
namespace {

using nlohmann::json;
using protocol::Dtype;

struct DtypeName {
  std::string_view name;
  Dtype dtype;
};
constexpr DtypeName kRealDtypes[] = {{"f32", Dtype::kF32},
                                     {"f64", Dtype::kF64},
                                     {"bf16", Dtype::kBf16},
                                     {"f16", Dtype::kF16},
                                     {"u8", Dtype::kU8}};
constexpr DtypeName kIntegerDtypes[] = {{"i32", Dtype::kI32}, {"i64", Dtype::kI64}};

std::string names_of(const points::PlaceTable& places) {
  std::string names;
  for (const points::Place& point : places.rows())
    if (point.traceable()) names += (names.empty() ? "" : ", ") + point.name;
  return names;
}

// The numbers that a list of ranges may contain, and the words for error messages.
struct NumberRange {
  std::int64_t first = 0, last = 0;  // both included
  std::string of;                    // "layers of HiddenStates"
  std::string remedy;
};

// Parses text such as "1-4,8". Result[n] is true if the text names n; n is at most allowed.last.
base::Result<std::vector<bool>> parse_ranges(const nlohmann::json& text, const NumberRange& allowed,
                                             const std::string& where) {
  const auto ranges =
      text.is_string() ? base::parse_ranges(text.get_ref<const std::string&>()) : std::nullopt;
  if (!ranges) {
    return base::invalid_argument(
        where, text.dump() + " is not a list of ranges in a text, such as \"1-4,8\"");
  }
  std::vector<bool> taken(static_cast<std::size_t>(allowed.last) + 1, false);
  for (const auto& [first, last] : *ranges) {
    if (first < allowed.first || last > allowed.last) {
      const std::string range =
          std::to_string(first) + (first == last ? "" : "-" + std::to_string(last));
      return base::invalid_argument(where,
                                    range + " is outside " + std::to_string(allowed.first) + "-" +
                                        std::to_string(allowed.last) + ", the " + allowed.of,
                                    allowed.remedy);
    }
    for (std::int64_t n = first; n <= last; ++n) taken[static_cast<std::size_t>(n)] = true;
  }
  return taken;
}

// Parses [first, end): a list of two whole numbers with 0 <= first < end <= most.
base::Result<base::Range> parse_window(const nlohmann::json& value, std::int64_t most,
                                       const std::string& where) {
  const bool is_pair = value.is_array() && value.size() == 2 &&
                       check_integer(value[0], where, 0, most - 1).ok() &&
                       check_integer(value[1], where, 1, most).ok() && value[0] < value[1];
  if (is_pair) return base::Range{value[0].get<std::int64_t>(), value[1].get<std::int64_t>()};
  return base::invalid_argument(
      where,
      value.dump() + " is not [first, end] with 0 <= first < end <= " + std::to_string(most));
}

base::Status parse_layers(const json& value, const points::Place& point, const std::string& where,
                          PlanEntry& entry) {
  if (value.is_null()) {
    entry.takes_layer.assign(static_cast<std::size_t>(point.last_layer) + 1, true);
    return {};
  }
  const NumberRange allowed{point.first_layer, point.last_layer, "layers of " + point.name,
                            "layers count from 1"};
  auto layers = parse_ranges(value, allowed, where);
  if (!layers) return layers.error();
  entry.layers = value.get<std::string>();
  entry.takes_layer = std::move(layers).value();
  return {};
}

base::Status parse_micro_batches(const json& value, std::int64_t count, const std::string& where,
                                 PlanEntry& entry) {
  if (!value.is_null() && !value.is_string())
    return base::invalid_argument(where, "micro_batches must be text such as \"0-3\"");
  if (!value.is_null()) entry.micro_batches = value.get<std::string>();
  const NumberRange allowed{0, count - 1, "micro-batches of a step", "micro-batches count from 0"};
  auto taken = parse_ranges(json(entry.micro_batches), allowed, where);
  if (!taken) return taken.error();
  entry.takes_micro_batch = std::move(taken).value();
  return {};
}

base::Status parse_phases(const json& value, const std::string& where, PlanEntry& entry) {
  if (value.is_null()) return {};
  entry.in_train = entry.in_eval = false;
  const bool is_list = value.is_array() && !value.empty();
  for (const json& phase : is_list ? value : json::array({value}))
    if (is_list && phase == "train")
      entry.in_train = true;
    else if (is_list && phase == "eval")
      entry.in_eval = true;
    else
      return base::invalid_argument(where, "phases must be a list of \"train\" and \"eval\"");
  return {};
}

base::Status parse_eval_forwards(const json& value, const std::string& where, PlanEntry& entry) {
  if (value.is_null() || value == "first") return {};
  if (value != "all")
    return base::invalid_argument(where, value.dump() + " is neither \"first\" nor \"all\"");
  if (!entry.in_eval)
    return base::invalid_argument(where, "the entry takes no evaluation", "add \"eval\" to phases");
  entry.all_eval_forwards = true;
  return {};
}

base::Status parse_prompts(const json& text, const points::PromptSets& sets,
                           const std::string& where, PlanEntry& entry) {
  if (!text.contains("prompts")) return {};
  const json& name = text["prompts"];
  const auto number = name.is_string() ? sets.find(name.get<std::string>()) : std::nullopt;
  if (!number) {
    std::string known;
    for (const std::string& set : sets.names()) known += (known.empty() ? "" : ", ") + set;
    return base::invalid_argument(
        where + ".prompts", "unknown prompt set " + name.dump(),
        known.empty() ? "keep a prompt, or start the run with --monitor-prompts and a file"
                      : "known prompt sets: " + known);
  }
  for (const char* key : {"phases", "micro_batches", "eval_forwards"}) {
    if (text.contains(key)) {
      return base::invalid_argument(where + "." + key, "does not go with prompts",
                                    "leave it out: prompts have separate passes");
    }
  }
  entry.prompt_set = *number;
  entry.prompts = sets.now()->at(*number - 1);
  entry.in_train = false;
  entry.in_eval = true;
  return {};
}

// Parses "rows": 2 for the first two (0: all rows), or [first, end).
base::Status parse_rows(const json& value, const std::string& where, PlanEntry& entry) {
  constexpr std::int64_t kMaxRows = 1 << 20;
  if (value.is_null()) return {};
  if (value.is_array()) {
    auto window = parse_window(value, kMaxRows, where);
    if (!window) return window.error();
    entry.first_row = window.value().first;
    entry.end_row = window.value().second;
    return {};
  }
  if (auto status = check_integer(value, where, 0, kMaxRows); !status) return status;
  entry.end_row.reset();
  if (value != 0) entry.end_row = value.get<std::int64_t>();
  return {};
}

base::Status parse_tokens(const json& value, std::int64_t seq_length, const std::string& where,
                          PlanEntry& entry) {
  if (value.is_null()) return {};
  auto window = parse_window(value, seq_length, where);
  if (!window) return window.error();
  entry.tokens = window.value();
  return {};
}

constexpr std::pair<std::string_view, MeanOver> kMeanOvers[] = {
    {"prompt", MeanOver::kPrompt},
    {"last-prompt", MeanOver::kLastPrompt},
    {"response", MeanOver::kResponse}};

base::Status parse_responses(const json& value, const PlanContext& context,
                             const std::string& where, PlanEntry& entry) {
  if (!value.is_boolean()) return base::invalid_argument(where, "must be true or false");
  entry.responses = value.get<bool>();
  if (!entry.responses) return {};
  if (entry.prompt_set == 0)
    return base::invalid_argument(where, "the run's own data has no responses",
                                  "name a prompt set under prompts");
  if (context.response_tokens == 0)
    return base::invalid_argument(where, "this run has no responses to prompts",
                                  "start it with --monitor-generate-interval");
  entry.prompts.tokens =
      std::min(context.seq_length, entry.prompts.tokens + context.response_tokens);
  return {};
}

base::Status parse_mean_over(const json& value, const points::Place& point,
                             const std::string& where, PlanEntry& entry) {
  if (value.is_null()) return {};
  const auto known =
      std::ranges::find_if(kMeanOvers, [&](const auto& name) { return value == name.first; });
  if (known == std::end(kMeanOvers))
    return base::invalid_argument(where, value.dump() + " names no tokens",
                                  "write \"prompt\", \"last-prompt\" or \"response\"");
  entry.mean_over = known->second;
  if (entry.prompt_set == 0)
    return base::invalid_argument(where, "the run's own data has no prompts",
                                  "name a prompt set under prompts");
  if (entry.mean_over == MeanOver::kResponse && !entry.responses)
    return base::invalid_argument(where, "a prompt alone has no response",
                                  "add \"responses\": true");
  if (entry.tokens)
    return base::invalid_argument(where, "does not go with tokens", "leave one of them out");
  const bool shards_tokens = point.placement.is_sharded() && point.placement.dim == 1;
  if (point.dims.size() == 3 && !point.holds_integers() && !shards_tokens) return {};
  return base::invalid_argument(where, point.name + " has no mean over tokens here",
                                "leave it out");
}

base::Status check_mean_over(const PlanEntry& entry, const std::string& where) {
  const Compressor& compressor = *entry.compressor;
  if (entry.mean_over == MeanOver::kNothing) return {};
  if (compressor.kept.units == 0 && !compressor.needs_targets) return {};
  return base::invalid_argument(where, "this compressor needs each token", "leave it out");
}

base::Status parse_dtype(const json& value, const points::Place& point, const std::string& where,
                         PlanEntry& entry) {
  const bool integers = point.holds_integers();
  entry.dtype = integers ? Dtype::kI32 : Dtype::kF32;
  if (value.is_null()) return {};
  std::string names;
  for (const DtypeName& known : integers ? std::span<const DtypeName>(kIntegerDtypes)
                                         : std::span<const DtypeName>(kRealDtypes)) {
    if (value == known.name) {
      entry.dtype = known.dtype;
      const bool fits = integers || !entry.compressor->needs_full_precision ||
                        known.dtype == Dtype::kF32 || known.dtype == Dtype::kF64;
      if (fits) return {};
      return base::invalid_argument(where,
                                    "counts and columns do not fit " + std::string(known.name),
                                    "use \"f32\" or \"f64\"");
    }
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  return base::invalid_argument(where, "unknown dtype " + value.dump() + " for " + point.name,
                                "known dtypes: " + names);
}

base::Status parse_direction(const json& value, const points::Place& point,
                             const std::string& where, PlanEntry& entry) {
  if (value.is_null() || value == "value") return {};
  if (value != "gradient")
    return base::invalid_argument(where, value.dump() + " is neither \"value\" nor \"gradient\"");
  if (!point.gradient) return base::invalid_argument(where, point.name + " has no gradient");
  entry.gradient = true;
  return {};
}

base::Status check_gradient(const PlanEntry& entry, const std::string& where) {
  if (!entry.gradient || !entry.in_eval) return {};
  return base::invalid_argument(where, "evaluation has no gradients",
                                "leave phases and prompts out");
}

// A value that a step has once is there after the update of a training step.
base::Status check_of_step(const PlanEntry& entry, const points::Place& point,
                           const std::string& where) {
  const bool is_there =
      !entry.in_eval && entry.takes_micro_batch.size() > 0 && entry.takes_micro_batch[0];
  if (!point.is_of_step() || is_there) return {};
  return base::invalid_argument(where, point.name + " belongs to a training step",
                                "leave phases, prompts and micro_batches out");
}

base::Result<std::size_t> parse_point(const json& text, const std::string& where,
                                      const points::PlaceTable& places) {
  const json name = text.value("point", json());
  const auto index = name.is_string() ? places.find(name.get<std::string>()) : std::nullopt;
  if (index && places.rows()[*index].traceable()) return *index;
  if (name.is_string()) {
    const std::string behind = places.place_behind(name.get<std::string>());
    if (!behind.empty()) {
      return base::invalid_argument(where + ".point", name.dump() + " is the value of " + behind,
                                    "trace " + behind);
    }
  }
  return base::invalid_argument(where + ".point",
                                name.is_null() ? "missing" : "unknown point " + name.dump(),
                                "known points: " + names_of(places));
}

// The facts and sizes that a compressor of this entry gets.
CompressorContext compressor_context(const PlanEntry& entry, const PlanContext& context) {
  const points::Place& point = context.places->rows()[entry.point];
  const std::vector<PassSize> sizes = pass_sizes(entry, context);
  const auto capture = [&](const PassSize& size) {
    const std::int64_t lines = lines_in(entry, context, size);
    return lines > 0 ? CaptureSize{rows_in(entry, size), lines} : CaptureSize{};
  };
  const bool has_smallest = lines_in(entry, context, sizes.back()) > 0;
  const bool has_keys = point.dims.size() == 4;
  return {point,
          entry.gradient ? *point.gradient : point.placement,
          entry.gradient,
          context.tensor_ranks / chunks_of(point.contexts),
          context.vectors,
          has_keys ? sizes.front().tokens : point.features,
          capture(sizes.front()),
          capture(has_smallest ? sizes.back() : sizes.front()),
          context.limits.expression};
}

// Parses the passes in which the trace point is captured, and the part that is captured.
base::Status parse_selection(const json& text, const std::string& where, const PlanContext& context,
                             PlanEntry& entry) {
  const points::Place& point = context.places->rows()[entry.point];
  const auto part = [&](const char* key) { return text.value(key, json()); };
  base::Status status = parse_direction(part("direction"), point, where + ".direction", entry);
  if (status) status = parse_layers(part("layers"), point, where + ".layers", entry);
  if (status)
    status = parse_integer(text, "every", where, 1, context.limits.max_every, entry.every);
  if (status) status = parse_phases(part("phases"), where + ".phases", entry);
  if (status) {
    status = parse_micro_batches(part("micro_batches"), context.micro_batches,
                                 where + ".micro_batches", entry);
  }
  if (status && !text.contains("prompts"))
    status = parse_eval_forwards(part("eval_forwards"), where + ".eval_forwards", entry);
  if (status) status = parse_prompts(text, context.prompt_sets, where, entry);
  if (status) status = check_gradient(entry, where);
  if (status) status = check_of_step(entry, point, where);
  if (status) status = parse_rows(part("rows"), where + ".rows", entry);
  if (status) status = parse_tokens(part("tokens"), context.seq_length, where + ".tokens", entry);
  if (status) {
    status =
        parse_responses(text.value("responses", json(false)), context, where + ".responses", entry);
  }
  if (status) status = parse_mean_over(part("mean_over"), point, where + ".mean_over", entry);
  return status;
}

base::Result<PlanEntry> parse_entry(const json& text, const std::string& where,
                                    const PlanContext& context) {
  if (!text.is_object()) return base::invalid_argument(where, "must be an object");
  base::Status status =
      refuse_unknown_keys(text, where,
                          {"point", "enabled", "direction", "layers", "every", "phases",
                           "eval_forwards", "micro_batches", "prompts", "responses", "rows",
                           "tokens", "mean_over", "compressor", "dtype"});
  if (!status) return status.error();
  auto index = parse_point(text, where, *context.places);
  if (!index) return index.error();
  PlanEntry entry;
  entry.point = index.value();
  const json enabled = text.value("enabled", json(true));
  if (!enabled.is_boolean())
    return base::invalid_argument(where + ".enabled", "must be true or false");
  entry.enabled = enabled.get<bool>();
  status = parse_selection(text, where, context, entry);
  if (!status) return status.error();
  auto compressor = parse_compressor(text.value("compressor", json()), where + ".compressor",
                                     compressor_context(entry, context));
  if (!compressor) return compressor.error();
  entry.compressor = std::move(compressor).value();
  if (status = check_mean_over(entry, where + ".mean_over"); !status) return status.error();
  const points::Place& point = context.places->rows()[entry.point];
  status = parse_dtype(text.value("dtype", json()), point, where + ".dtype", entry);
  if (!status) return status.error();
  return entry;
}

std::string_view name_of(Dtype dtype) {
  for (const auto names :
       {std::span<const DtypeName>(kRealDtypes), std::span<const DtypeName>(kIntegerDtypes)}) {
    const auto found = std::ranges::find(names, dtype, &DtypeName::dtype);
    if (found != names.end()) return found->name;
  }
  return "";
}

json rows_of(const PlanEntry& entry) {
  if (entry.first_row > 0) return {entry.first_row, *entry.end_row};
  return entry.end_row.value_or(0);
}

json to_json(const PlanEntry& entry, const PlanContext& context) {
  json text = {{"point", context.places->rows()[entry.point].name},
               {"direction", entry.gradient ? "gradient" : "value"},
               {"every", entry.every},
               {"rows", rows_of(entry)},
               {"compressor", entry.compressor->form},
               {"dtype", name_of(entry.dtype)}};
  if (!entry.enabled) text["enabled"] = false;
  if (!entry.layers.empty()) text["layers"] = entry.layers;
  if (entry.tokens) text["tokens"] = {entry.tokens->first, entry.tokens->second};
  if (entry.prompt_set > 0) {
    text["prompts"] = entry.prompts.name;
    if (entry.responses) text["responses"] = true;
    for (const auto& [name, over] : kMeanOvers)
      if (over == entry.mean_over) text["mean_over"] = name;
    return text;
  }
  text["micro_batches"] = entry.micro_batches;
  text["phases"] = json::array();
  if (entry.in_train) text["phases"].push_back("train");
  if (entry.in_eval) text["phases"].push_back("eval");
  if (entry.all_eval_forwards) text["eval_forwards"] = "all";
  return text;
}

// Places that show how a prediction forms, for the last 64 tokens of a text with `length` tokens
// and all later tokens of its set. They are computed only for capture, so they come at some steps
// only.
json how_prompts_are_predicted(const points::PromptShape& set, std::int64_t length,
                               const PlanContext& context) {
  constexpr std::int64_t kTokens = 64, kEvery = 10;
  json entries = json::array();
  for (const char* name : {"LogitLens", "attention.entropy", "attention.largest_score",
                           "attention.first_token_share"}) {
    const auto row = context.places->find(name);
    if (!row) continue;
    json entry = {{"point", name}, {"prompts", set.name}, {"rows", 0}, {"every", kEvery}};
    if (length > kTokens) entry["tokens"] = {length - kTokens, set.tokens};
    if (!context.places->rows()[*row].is_vocabulary) entry["compressor"] = {{"kind", "none"}};
    entries.push_back(std::move(entry));
  }
  return entries;
}

// The projection on the run's first vectors; null if it has none.
json projection_on(const PlanContext& context) {
  std::vector<std::string> vectors;
  if (context.vectors != nullptr) vectors = context.vectors->names();
  if (vectors.size() > kMaxVectors) vectors.resize(kMaxVectors);
  if (vectors.empty()) return {};
  return {{"kind", "projection"}, {"vectors", std::move(vectors)}};
}

// The entry at the places of a vector's rows. The last row is that of the final norm, if the model
// has it, and not that of the last layer.
std::vector<json> at_rows_of_vectors(const json& entry, const PlanContext& context) {
  json states = entry, norm = entry;
  states["point"] = "HiddenStates";
  norm["point"] = "FinalNorm";
  const auto row = context.places->find("HiddenStates");
  if (!row || !context.places->find("FinalNorm")) return {std::move(states)};
  const int layers = context.places->rows()[*row].last_layer;
  if (layers == 1) return {std::move(norm)};
  states["layers"] = "1-" + std::to_string(layers - 1);
  return {std::move(states), std::move(norm)};
}

// The projections of a prompt set that alarms compare: at the last token of each prompt, and the
// mean over each response.
std::vector<json> how_prompts_project(const std::string& set, const PlanContext& context) {
  const json projection = projection_on(context);
  if (projection.is_null()) return {};
  json entry = {
      {"prompts", set}, {"rows", 0}, {"mean_over", "last-prompt"}, {"compressor", projection}};
  std::vector<json> entries = at_rows_of_vectors(entry, context);
  if (context.response_tokens == 0) return entries;
  entry.update({{"responses", true}, {"mean_over", "response"}});
  std::ranges::move(at_rows_of_vectors(entry, context), std::back_inserter(entries));
  return entries;
}

// A plan of InputTokens and HiddenStates of the first `tokens` tokens, and of projections on the
// run's vectors.
json watch_first(std::int64_t tokens, const PlanContext& context) {
  const json projection = projection_on(context);
  json entries = json::array();
  const auto watch = [&](const json& selection) {
    json states = {{"point", "HiddenStates"}};
    if (tokens < context.seq_length) states["tokens"] = {0, tokens};
    std::vector<json> watched = {{{"point", "InputTokens"}}, std::move(states)};
    if (!projection.is_null())
      std::ranges::move(at_rows_of_vectors({{"compressor", projection}}, context),
                        std::back_inserter(watched));
    for (json& entry : watched) {
      entry.update(selection);
      entries.push_back(std::move(entry));
    }
  };
  watch(json::object());
  for (const std::string& set : context.prompt_sets.names()) watch({{"prompts", set}, {"rows", 0}});
  return {{"entries", std::move(entries)}};
}

}  // namespace

bool PlanEntry::takes(const ForwardScope& scope) const {
  if (!enabled || scope.step % every != 0 || scope.prompt_set != prompt_set) return false;
  if (responses != (scope.phase == Phase::kGeneration)) return false;
  if (prompt_set > 0) return true;
  if (scope.phase == Phase::kEval)
    return in_eval && (all_eval_forwards || (scope.batch == 0 && scope.micro_batch == 0));
  const auto number = static_cast<std::size_t>(scope.micro_batch);
  return in_train && number < takes_micro_batch.size() && takes_micro_batch[number];
}

base::Result<Plan> parse_plan(const json& text, const PlanContext& context, std::uint32_t number) {
  if (!text.is_object()) return base::invalid_argument("plan", "must be an object");
  if (auto status = refuse_unknown_keys(text, "plan", {"number", "entries"}); !status)
    return status.error();
  const json entries = text.value("entries", json());
  if (!entries.is_array()) return base::invalid_argument("plan.entries", "must be a list");
  if (entries.size() > context.limits.max_entries) {
    return base::invalid_argument("plan.entries",
                                  std::to_string(entries.size()) + " entries are more than " +
                                      std::to_string(context.limits.max_entries),
                                  "remove entries from the trace plan");
  }
  Plan plan;
  plan.number = number;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    auto entry = parse_entry(entries[i], "plan.entries[" + std::to_string(i) + "]", context);
    if (!entry) return entry.error();
    plan.entries.push_back(std::move(entry).value());
  }
  if (auto status = check_pass_bytes(plan, context); !status) return status.error();
  return plan;
}

json to_json(const Plan& plan, const PlanContext& context) {
  json entries = json::array();
  for (const PlanEntry& entry : plan.entries) entries.push_back(to_json(entry, context));
  return {{"number", plan.number}, {"entries", std::move(entries)}};
}

FileContents contents_of(const Plan& plan) {
  FileContents contents;
  for (const PlanEntry& entry : plan.entries)
    for (const auto& vector : entry.compressor->vectors) contents.vectors[vector->name] = vector;
  return contents;
}

json default_plan(const PlanContext& context) {
  json plan = watch_first(context.seq_length, context);
  for (std::int64_t tokens = context.seq_length / 2; tokens > 0; tokens /= 2) {
    if (parse_plan(plan, context, 0)) break;
    plan = watch_first(tokens, context);
  }
  for (const std::string& set : context.prompt_sets.names()) {
    json longer = plan;
    for (json& entry : how_prompts_project(set, context))
      longer["entries"].push_back(std::move(entry));
    if (parse_plan(longer, context, 0)) plan = std::move(longer);
  }
  const auto sets = context.prompt_sets.now();
  for (const points::PromptShape& set : *sets) {
    if (set.is_removed) continue;
    for (const std::int64_t length : {set.shortest, set.tokens}) {
      json longer = plan;
      for (json& entry : how_prompts_are_predicted(set, length, context))
        longer["entries"].push_back(std::move(entry));
      if (!parse_plan(longer, context, 0)) continue;
      plan = std::move(longer);
      break;
    }
  }
  return plan;
}

}  // namespace tt::trace
