#include "src/train/prompt_responses.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "tensor_tracer/comm/collective_log.h"

namespace tt::train {
namespace {

using Ids = std::vector<std::int64_t>;

// Each row is a prompt and its response, then zeros.
trace::PassText joined(const std::vector<Ids>& prompts,
                       const std::vector<generate::Response>& responses) {
  std::vector<Ids> rows = prompts;
  std::size_t longest = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].insert(rows[i].end(), responses[i].ids.begin(), responses[i].ids.end());
    longest = std::max(longest, rows[i].size());
  }
  const at::Tensor ids = at::zeros({std::ssize(rows), static_cast<std::int64_t>(longest)},
                                   at::device(at::kCPU).dtype(at::kLong));
  trace::PassText text{ids, at::full_like(ids, -1), at::zeros_like(ids, at::kBool),
                       at::zeros_like(ids, at::kBool)};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    const std::int64_t size = std::ssize(rows[i]), prompt = std::ssize(prompts[i]);
    ids[row].narrow(0, 0, size).copy_(at::tensor(rows[i], ids.options()));
    text.targets[row].narrow(0, 0, size - 1).copy_(ids[row].narrow(0, 1, size - 1));
    text.prompt[row].narrow(0, 0, prompt).fill_(true);
    text.response[row].narrow(0, prompt, size - prompt).fill_(true);
  }
  return text;
}

}  // namespace

PromptResponses::PromptResponses(const config::TrainConfig& config, const Groups& groups,
                                 const model::Gpt& model, const ForwardRunner& runner,
                                 trace::InterventionHooks* hooks, ResponseText text,
                                 trace::TraceSink* sink)
    : batch_size_(static_cast<std::size_t>(config.micro_batch_size)),
      groups_(groups),
      runner_(runner),
      hooks_(hooks),
      text_(std::move(text)),
      sink_(groups.world.rank() == 0 ? sink : nullptr),
      generator_(config.model, model, groups.tensor, hooks,
                 {.sampling = config.monitor.responses,
                  .seed = static_cast<std::uint64_t>(config.seed),
                  .stop_ids = text_.stop_ids}) {}

void PromptResponses::run(const std::vector<data::PromptSet>& sets, std::int64_t step,
                          trace::Tracer& tracer) {
  if (groups_.coordinates.data != 0) return;
  const comm::SoloWork work(groups_.world, "continues the monitored prompts");
  for (std::size_t set = 0; set < sets.size(); ++set) {
    if (sets[set].is_removed) continue;
    for (std::size_t begin = 0; begin < sets[set].prompts.size(); begin += batch_size_) {
      run_batch(sets[set], begin,
                {.step = step,
                 .micro_batch = static_cast<std::int64_t>(begin / batch_size_),
                 .first_row = static_cast<std::int64_t>(begin),
                 .phase = trace::Phase::kGeneration,
                 .prompt_set = static_cast<std::uint32_t>(set) + 1},
                tracer);
    }
  }
}

void PromptResponses::run_batch(const data::PromptSet& set, std::size_t begin,
                                const trace::ForwardScope& scope, trace::Tracer& tracer) {
  Prompts prompts;
  for (std::size_t i = begin; i < std::min(begin + batch_size_, set.prompts.size()); ++i)
    prompts.push_back(set.prompts[i].tokens);
  trace::ForwardScope of_row = scope;
  try {
    const std::vector<generate::Response> responses = generator_.run(prompts, scope);
    for (const generate::Response& response : responses) {
      send(response, of_row);
      ++of_row.first_row;
    }
    runner_.run_prompt({scope, joined(prompts, responses), tracer, hooks_});
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
