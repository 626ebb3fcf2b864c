#pragma once

#include <cstdint>
#include <vector>

#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/data/prompts.h"
#include "tensor_tracer/generate/generator.h"
#include "tensor_tracer/model/gpt.h"
#include "tensor_tracer/trace/intervention_hooks.h"
#include "tensor_tracer/trace/trace_sink.h"
#include "tensor_tracer/train/forward_runner.h"
#include "tensor_tracer/train/groups.h"
#include "tensor_tracer/train/response_text.h"

namespace tt::train {

/// Continues the monitored prompts between two steps, and sends the viewers the responses. The same
/// seed gives a prompt the same random numbers at every step. Thread: the thread that runs the
/// step.
class PromptResponses {
 public:
  /// `hooks` and `sink` may be null; all arguments except `text` outlive the object.
  PromptResponses(const config::TrainConfig& config, const Groups& groups, const model::Gpt& model,
                  const ForwardRunner& runner, trace::InterventionHooks* hooks, ResponseText text,
                  trace::TraceSink* sink);

  /// Sends the notification "response" for each prompt, or a warning if a text cannot go on. If the
  /// plan takes responses, prompts and responses run through the model once more, together. Only
  /// data replica 0 works. Collective along the tensor axis.
  void run(const std::vector<data::PromptSet>& sets, std::int64_t step, trace::Tracer& tracer);

 private:
  using Prompts = std::vector<std::vector<std::int64_t>>;
  void run_batch(const data::PromptSet& set, std::size_t begin, const trace::ForwardScope& scope,
                 trace::Tracer& tracer);
  void send(const generate::Response& response, const trace::ForwardScope& scope);

  const std::size_t batch_size_;
  const Groups& groups_;
  const ForwardRunner& runner_;
  trace::InterventionHooks* const hooks_;
  const ResponseText text_;
  trace::TraceSink* const sink_;
  generate::Generator generator_;
};

}  // namespace tt::train
