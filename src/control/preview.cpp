#include "tensor_tracer/control/preview.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "tensor_tracer/base/base64.h"
#include "tensor_tracer/comm/collectives.h"
#include "tensor_tracer/trace/kept_records.h"

namespace tt::control {
namespace {

using nlohmann::json;

base::Error too_many_bytes(std::size_t bytes) {
  return {"too_large",
          "the plan's records have " + std::to_string(bytes) + " bytes, a preview sends " +
              std::to_string(trace::KeptRecords::kMaxBytes),
          "plan", "watch fewer layers, rows or tokens, or reduce them more"};
}

// Without a plan in `params`: a plan without entries.
base::Result<trace::Plan> begin(const PreviewParts& parts, const json& params,
                                const trace::FileContents& contents) {
  trace::Plan plan;
  if (const auto text = params.find("plan"); text != params.end()) {
    trace::ReceivedFiles files(contents);
    trace::PlanContext context = parts.rehearsal.context;
    context.vectors = &files;
    auto read = trace::parse_plan(*text, context, 0);
    if (!read) return read.error();
    plan = std::move(read).value();
  }
  const auto reported = parts.has_batches ? trace::Phase::kTrain : trace::Phase::kEval;
  const base::Status status = parts.rehearsal.hooks->begin_preview(params, contents, reported);
  if (!status) return status.error();
  return plan;
}

// A set keeps its number, which records have.
std::vector<data::PromptSet> sets_of(const PreviewParts& parts, const trace::Plan& plan) {
  std::vector<data::PromptSet> sets = parts.prompts;
  const bool watches_prompts = std::ranges::any_of(
      plan.entries, [](const trace::PlanEntry& entry) { return entry.prompt_set > 0; });
  if (!watches_prompts && !parts.has_batches) return sets;
  for (std::size_t set = 0; set < sets.size(); ++set) {
    sets[set].is_removed |= std::ranges::none_of(
        plan.entries,
        [number = set + 1](const trace::PlanEntry& entry) { return entry.prompt_set == number; });
  }
  return sets;
}

struct Side {
  std::vector<BatchLoss> losses;
  std::string records;
};

base::Result<Side> run_side(const PreviewParts& parts, const PreviewPasses& passes,
                            trace::KeptRecords& kept) {
  auto losses = parts.forwards(passes);
  if (!losses) return losses.error();
  passes.watch.deliver_all();
  return Side{std::move(losses).value(), kept.take()};
}

base::Result<std::pair<Side, Side>> run_sides(const PreviewParts& parts, PreviewPasses passes,
                                              trace::KeptRecords& kept) {
  auto off = run_side(parts, passes, kept);
  if (!off) return off.error();
  parts.rehearsal.hooks->turn_preview(true);
  passes.has_backward = parts.rehearsal.hooks->preview_writes_gradients();
  auto on = run_side(parts, passes, kept);
  if (!on) return on.error();
  return std::pair(std::move(off).value(), std::move(on).value());
}

json batches_of(const Side& off, const Side& on) {
  json batches = json::array();
  for (std::size_t i = 0; i < off.losses.size(); ++i) {
    batches.push_back({{"batch", off.losses[i].batch},
                       {"loss_off", off.losses[i].loss},
                       {"loss_on", on.losses[i].loss}});
  }
  return batches;
}

}  // namespace

base::Result<json> run_preview(const PreviewParts& parts, const json& params,
                               const trace::FileContents& contents, std::int64_t steps_done) {
  const Rehearsal& of = parts.rehearsal;
  auto plan = begin(parts, params, contents);
  if (!comm::all_of(of.control, plan.ok())) {
    if (!plan) return plan.error();
    of.hooks->end_preview();
    return base::Error{"invalid_argument", "another rank could not take the program", "program",
                       ""};
  }
  const std::vector<data::PromptSet> sets = sets_of(parts, plan.value());
  trace::KeptRecords kept;
  trace::Tracer watch(of.context, of.identity, of.tracer_group, &kept, of.runtime);
  watch.set_plan(std::make_shared<const trace::Plan>(std::move(plan).value()));
  const auto sides =
      run_sides(parts, {std::max<std::int64_t>(steps_done, 1), false, watch, sets}, kept);
  json writes;  // collective, and ranks that failed have no counts to share
  if (sides) writes = of.hooks->preview_writes();
  json notes = kept.notes();
  if (const std::string misfit = of.hooks->preview_misfit(); !misfit.empty())
    notes.push_back("some passes ran without the program: " + misfit);
  of.hooks->end_preview();
  if (!sides) return sides.error();
  const auto& [off, on] = sides.value();
  const std::size_t bytes = std::max(off.records.size(), on.records.size());
  if (bytes > trace::KeptRecords::kMaxBytes) return too_many_bytes(bytes);
  json answer = {
      {"step", steps_done}, {"batches", batches_of(off, on)}, {"writes", std::move(writes)}};
  if (!notes.empty()) answer["notes"] = std::move(notes);
  if (params.contains("plan")) {
    answer["records"] = {{"off", base::to_base64(off.records)},
                         {"on", base::to_base64(on.records)}};
  }
  return answer;
}

}  // namespace tt::control
