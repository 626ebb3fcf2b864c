#include "src/train/prompt_responses.h"

#include <algorithm>
#include <utility>

#include "tensor_tracer/comm/collective_log.h"

namespace tt::train {

PromptResponses::PromptResponses(const config::TrainConfig& config, const Groups& groups,
                                 const model::Gpt& model, trace::InterventionHooks* hooks,
                                 ResponseText text, trace::TraceSink* sink)
    : batch_size_(static_cast<std::size_t>(config.micro_batch_size)),
      groups_(groups),
      text_(std::move(text)),
      sink_(groups.world.rank() == 0 ? sink : nullptr),
      generator_(config.model, model, groups.tensor, hooks,
                 {.sampling = config.monitor.responses,
                  .seed = static_cast<std::uint64_t>(config.seed),
                  .stop_ids = text_.stop_ids}) {}

void PromptResponses::run(const std::vector<data::PromptSet>& sets, std::int64_t step) {
  if (groups_.coordinates.data != 0) return;
  const comm::SoloWork work(groups_.world, "continues the monitored prompts");
  for (std::size_t set = 0; set < sets.size(); ++set) {
    if (sets[set].is_removed) continue;
    for (std::size_t begin = 0; begin < sets[set].prompts.size(); begin += batch_size_) {
      run_batch(sets[set], begin,
                {.step = step,
                 .first_row = static_cast<std::int64_t>(begin),
                 .prompt_set = static_cast<std::uint32_t>(set) + 1});
    }
  }
}

void PromptResponses::run_batch(const data::PromptSet& set, std::size_t begin,
                                const trace::ForwardScope& scope) {
  std::vector<std::vector<std::int64_t>> prompts;
  for (std::size_t i = begin; i < std::min(begin + batch_size_, set.prompts.size()); ++i)
    prompts.push_back(set.prompts[i].tokens);
  trace::ForwardScope of_row = scope;
  try {
    for (const generate::Response& response : generator_.run(prompts, scope)) {
      send(response, of_row);
      ++of_row.first_row;
    }
  } catch (const generate::GenerationError& error) {
    if (sink_ == nullptr) return;
    sink_->send_event("log",
                      {{"level", "warning"},
                       {"message", "no responses to prompts of \"" + set.name + "\" at step " +
                                       std::to_string(scope.step) + ": " + error.what()}});
  }
}

void PromptResponses::send(const generate::Response& response, const trace::ForwardScope& scope) {
  if (sink_ == nullptr) return;
  sink_->send_event("response", {{"step", scope.step},
                                 {"prompt_set", scope.prompt_set},
                                 {"prompt", scope.first_row},
                                 {"text", text_.decode(response.ids)},
                                 {"token_ids", response.ids},
                                 {"finish_reason", response.finish_reason()}});
}

}  // namespace tt::train
