#include "tensor_tracer/control/prompt_run.h"

#include <algorithm>
#include <string>
#include <utility>

#include "tensor_tracer/base/base64.h"
#include "tensor_tracer/comm/collectives.h"
#include "tensor_tracer/trace/kept_records.h"
#include "tensor_tracer/trace/prompt_plan.h"

namespace tt::control {
namespace {

using nlohmann::json;

// The passes of a typed prompt.
class TypedPrompt {
 public:
  TypedPrompt(const PromptForward& forward, const Rehearsal& of, const data::Prompt& prompt,
              trace::Plan plan, const trace::PlanContext& context, std::int64_t steps_done)
      : forward_(forward),
        watch_(context, of.identity, of.tracer_group, &kept_, of.runtime),
        scope_{.step = std::max<std::int64_t>(steps_done, 1),
               .phase = trace::Phase::kEval,
               .prompt_set = trace::kTypedPrompt} {
    const data::PromptSet alone{"", {prompt}};
    text_ = {alone.tokens(), alone.targets(), {}, alone.is_text()};
    watch_.set_plan(std::make_shared<const trace::Plan>(std::move(plan)));
  }

  /// The records in Base64.
  base::Result<std::string> run(trace::InterventionHooks* hooks) {
    const base::Status status = forward_({scope_, text_, watch_, hooks});
    if (!status) return status.error();
    watch_.deliver_all();
    return base::to_base64(kept_.take());
  }

  const json& notes() const { return kept_.notes(); }

 private:
  const PromptForward& forward_;
  trace::KeptRecords kept_;
  trace::Tracer watch_;
  const trace::ForwardScope scope_;
  trace::PassText text_;
};

}  // namespace

base::Result<json> run_prompt(const PromptForward& forward, const Rehearsal& rehearsal,
                              const json& params, const trace::FileContents& contents,
                              std::int64_t steps_done) {
  const data::Prompt prompt{params.at("text"), params.at("tokens")};
  trace::ReceivedFiles files(contents);
  trace::PlanContext context = rehearsal.context;
  context.vectors = &files;
  auto plan = trace::parse_prompt_plan(params.at("plan"), context, prompt.length(),
                                       trace::KeptRecords::kMaxBytes);
  if (!comm::all_of(rehearsal.control, plan.ok())) {
    if (!plan) return plan.error();
    return base::Error{"invalid_argument", "another rank could not take the plan", "plan", ""};
  }
  json answer = {{"step", steps_done},
                 {"tokens", prompt.tokens},
                 {"plan", trace::to_json(plan.value(), context)}};
  TypedPrompt typed(forward, rehearsal, prompt, std::move(plan).value(), context, steps_done);
  auto records = typed.run(nullptr);
  if (!records) return records.error();
  answer["records"]["off"] = std::move(records).value();
  if (rehearsal.hooks != nullptr && rehearsal.hooks->begin_prompt()) {
    records = typed.run(rehearsal.hooks);
    answer["programs"] = rehearsal.hooks->end_prompt();
    if (!records) return records.error();
    answer["records"]["on"] = std::move(records).value();
  }
  if (!typed.notes().empty()) answer["notes"] = typed.notes();
  return answer;
}

void for_each_pass(
    const std::vector<data::PromptSet>& sets, std::int64_t step, std::int64_t rows,
    const std::function<bool(const trace::ForwardScope& scope, const trace::PassText& text)>& run) {
  for (std::size_t set = 0; set < sets.size(); ++set) {
    if (sets[set].is_removed) continue;
    const at::Tensor tokens = sets[set].tokens(), targets = sets[set].targets();
    const at::Tensor is_text = sets[set].is_text();
    std::int64_t micro = 0;
    for (std::int64_t row = 0; row < tokens.size(0); row += rows, ++micro) {
      const trace::ForwardScope scope{step, micro, row, trace::Phase::kEval,
                                      static_cast<std::uint32_t>(set) + 1};
      const std::int64_t count = std::min(rows, tokens.size(0) - row);
      const trace::PassText text{tokens.narrow(0, row, count),
                                 targets.narrow(0, row, count),
                                 {},
                                 is_text.narrow(0, row, count)};
      if (!run(scope, text)) break;
    }
  }
}

}  // namespace tt::control
