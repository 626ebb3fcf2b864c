#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/generate/sampler.h"
#include "tensor_tracer/model/gpt.h"
#include "tensor_tracer/trace/intervention_hooks.h"

namespace tt::generate {

struct GenerateOptions {
  config::SamplingConfig sampling;  // a response also ends at --seq-length, prompt included
  std::uint64_t seed = 0;           // of the draws
  std::set<std::int64_t> stop_ids;  // a response ends with one of these
  std::int64_t top_logits = 0;      // best scores that are kept of each token
};

/// The response to one prompt. The model reads every token but the last one.
struct Response {
  std::vector<std::int64_t> ids;
  bool is_stopped = false;  // by a token of stop_ids, which is the last id
  // With top_logits, on rank 0: by token.
  std::vector<double> logprobs;  // log softmax of the scores
  std::vector<std::vector<std::int64_t>> top_ids;
  std::vector<std::vector<double>> top_logits;

  const char* finish_reason() const { return is_stopped ? "stop" : "length"; }
};

/// Continues prompts, token by token, with a cache of keys and values. All ranks of the tensor axis
/// make the same calls. Thread: the thread that runs the model.
class Generator {
 public:
  /// Called on every rank for each token of a response. `prompt`: its number.
  using OnToken = std::function<void(std::int64_t prompt, std::int64_t id)>;

  /// All arguments except the options outlive the generator; `hooks` may be null: no program acts.
  Generator(const config::ModelConfig& config, const model::Gpt& model,
            const comm::ProcessGroup& tensor, trace::InterventionHooks* hooks,
            GenerateOptions options, OnToken on_token = {});

  /// Continues the prompts, each of 1 to --seq-length tokens, in one batch. The response to a
  /// prompt does not depend on the others, except by rounding. `scope`: for programs; its first_row
  /// is the number of the first prompt, and the generator sets phase and batch. Throws
  /// GenerationError. Collective along the tensor axis.
  std::vector<Response> run(const std::vector<std::vector<std::int64_t>>& prompts,
                            const trace::ForwardScope& scope);

 private:
  struct Batch;
  Batch open(const std::vector<std::vector<std::int64_t>>& prompts,
             const trace::ForwardScope& scope) const;
  at::Tensor next_logits(Batch& batch, const at::Tensor& tokens, const at::Tensor& last);
  void add(Batch& batch, const Drawn& drawn);

  const config::ModelConfig& config_;
  const model::Gpt& model_;
  trace::InterventionHooks* const hooks_;
  const GenerateOptions options_;
  const OnToken on_token_;
  const Sampler sampler_;
};

}  // namespace tt::generate
