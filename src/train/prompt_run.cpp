#include "src/train/prompt_run.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "tensor_tracer/base/base64.h"
#include "tensor_tracer/comm/collectives.h"
#include "tensor_tracer/data/tokenizer.h"
#include "tensor_tracer/trace/kept_records.h"
#include "tensor_tracer/trace/prompt_plan.h"

namespace tt::train {

base::Result<nlohmann::json> run_prompt(const PromptRunParts& parts, const nlohmann::json& params,
                                        const trace::FileContents& contents,
                                        std::int64_t steps_done) {
  const data::PromptSet prompt{"", {params.at("text").get<std::string>()}};
  trace::ReceivedFiles files(contents);
  trace::PlanContext context = parts.context;
  context.vectors = &files;
  auto plan = trace::parse_prompt_plan(params.at("plan"), context, prompt.longest(),
                                       trace::KeptRecords::kMaxBytes);
  if (!comm::all_of(parts.groups.control, plan.ok())) {
    if (!plan) return plan.error();
    return base::Error{"invalid_argument", "another rank could not take the plan", "plan", ""};
  }
  nlohmann::json answer = {{"step", steps_done},
                           {"tokens", data::tokenize(prompt.texts.front())},
                           {"plan", trace::to_json(plan.value(), context)}};
  trace::KeptRecords kept;
  trace::Tracer watch(context, trace::TracerIdentity{parts.run_id, parts.groups.coordinates},
                      parts.groups.tracer, &kept);
  watch.set_plan(std::make_shared<const trace::Plan>(std::move(plan).value()));
  const std::int64_t step = std::max<std::int64_t>(steps_done, 1);
  parts.runner.run_prompt(prompt, step, watch, nullptr);
  answer["records"]["off"] = base::to_base64(kept.take());
  if (parts.hooks != nullptr && parts.hooks->begin_prompt()) {
    parts.runner.run_prompt(prompt, step, watch, parts.hooks);
    answer["programs"] = parts.hooks->end_prompt();
    answer["records"]["on"] = base::to_base64(kept.take());
  }
  if (!kept.notes().empty()) answer["notes"] = kept.notes();
  return answer;
}

}  // namespace tt::train
