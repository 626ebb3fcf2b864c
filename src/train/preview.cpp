#include "src/train/preview.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tensor_tracer/base/base64.h"
#include "tensor_tracer/comm/collectives.h"
#include "tensor_tracer/trace/kept_records.h"

namespace tt::train {
namespace {

base::Error too_many_bytes(std::size_t bytes) {
  return {"too_large",
          "the plan's records have " + std::to_string(bytes) + " bytes, a preview sends " +
              std::to_string(trace::KeptRecords::kMaxBytes),
          "plan", "watch fewer layers, rows or tokens, or reduce them more"};
}

// The losses of both batches, without or with the program.
struct Losses {
  double train = 0.0;
  double valid = 0.0;
  std::string records;  // of the evaluation batch and the prompts
};

base::Result<std::optional<trace::Plan>> begin(const PreviewParts& parts,
                                               const nlohmann::json& params,
                                               const trace::FileContents& contents) {
  std::optional<trace::Plan> plan;
  if (const auto text = params.find("plan"); text != params.end()) {
    trace::ReceivedFiles files(contents);
    trace::PlanContext context = parts.context;
    context.vectors = &files;
    auto read = trace::parse_plan(*text, context, 0);
    if (!read) return read.error();
    plan = std::move(read).value();
  }
  const base::Status status = parts.hooks.begin_preview(params, contents);
  if (!status) return status.error();
  return plan;
}

bool watches_prompts(const trace::Plan& plan) {
  return std::ranges::any_of(
      plan.entries, [](const trace::PlanEntry& entry) { return entry.prompt_set > 0; });
}

// Runs without dropout, so that the passes differ only by the program. The gradients are not used.
Losses measure(const PreviewParts& parts, std::int64_t step, bool has_backward,
               trace::Tracer* watch, trace::KeptRecords& kept) {
  ForwardRunner& runner = parts.runner;
  Losses losses;
  losses.train = runner.mean_over_replicas(
      runner.mean_loss({.step = step, .has_backward = has_backward}, nullptr));
  losses.valid = runner.mean_over_replicas(
      runner.mean_loss({.step = step, .phase = trace::Phase::kEval}, watch));
  runner.finish();
  if (watch != nullptr && watches_prompts(watch->plan()))
    runner.run_prompts(parts.prompts, step, *watch);
  losses.records = kept.take();
  return losses;
}

}  // namespace

base::Result<nlohmann::json> run_preview(const PreviewParts& parts, const nlohmann::json& params,
                                         const trace::FileContents& contents,
                                         std::int64_t steps_done) {
  auto plan = begin(parts, params, contents);
  if (!comm::all_of(parts.groups.control, plan.ok())) {
    if (!plan) return plan.error();
    parts.hooks.end_preview();
    return base::Error{"invalid_argument", "another rank could not take the program", "program",
                       ""};
  }
  trace::KeptRecords kept;
  std::optional<trace::Tracer> watch;
  if (plan.value()) {
    watch.emplace(parts.context, trace::TracerIdentity{parts.run_id, parts.groups.coordinates},
                  parts.groups.tracer, &kept);
    watch->set_plan(std::make_shared<const trace::Plan>(*std::move(plan).value()));
  }
  trace::Tracer* const tracer = watch ? &*watch : nullptr;
  const std::int64_t step = std::max<std::int64_t>(steps_done, 1);
  const Losses off = measure(parts, step, false, tracer, kept);
  parts.hooks.turn_preview(true);
  const Losses on = measure(parts, step, parts.hooks.preview_writes_gradients(), tracer, kept);
  nlohmann::json writes = parts.hooks.preview_writes();
  parts.hooks.end_preview();
  const std::size_t bytes = std::max(off.records.size(), on.records.size());
  if (bytes > trace::KeptRecords::kMaxBytes) return too_many_bytes(bytes);
  nlohmann::json answer = {{"step", steps_done},
                           {"batches",
                            {{{"batch", "train"}, {"loss_off", off.train}, {"loss_on", on.train}},
                             {{"batch", "valid"}, {"loss_off", off.valid}, {"loss_on", on.valid}}}},
                           {"writes", std::move(writes)}};
  if (watch) {
    answer["records"] = {{"off", base::to_base64(off.records)},
                         {"on", base::to_base64(on.records)}};
  }
  return answer;
}

}  // namespace tt::train
