#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/control/preview.h"
#include "tensor_tracer/control/prompt_run.h"
#include "tensor_tracer/data/batches.h"
#include "tensor_tracer/data/prompts.h"
#include "tensor_tracer/model/gpt.h"
#include "tensor_tracer/trace/intervention_hooks.h"
#include "tensor_tracer/trace/tracer.h"
#include "tensor_tracer/train/groups.h"

namespace tt::train {

class FiniteCheck;

/// A forward pass whose backward may come later.
struct OpenForward {
  trace::Pass pass;
  std::unique_ptr<trace::InterventionPass> interventions;  // null: no program acts
  at::Tensor loss;                                         // of the micro-batch, a scalar
};

/// A global batch, and the settings for the model's run over it.
struct GlobalBatch {
  std::int64_t step = 1;
  trace::Phase phase = trace::Phase::kTrain;  // training data or evaluation data
  std::int64_t index = 0;                     // batch of an evaluation, from 0
  bool drops = false;                         // dropout is on
  bool has_backward = false;
  FiniteCheck* check = nullptr;  // looks at every value; null: nobody looks
};

/// Runs the model of one rank on training data, evaluations, prompts and previews. All ranks of the
/// tensor axis make the same calls in the same order. Thread: the thread that runs the step.
class ForwardRunner {
 public:
  /// All arguments except `config` outlive the runner; `hooks` may be null. REQUIRES: config passed
  /// config::check for this mesh.
  ForwardRunner(const config::TrainConfig& config, const Groups& groups, const model::Gpt& model,
                data::Batches& batches, trace::InterventionHooks* hooks);

  std::int64_t global_batch() const { return global_batch_; }

  /// The mean loss in nats over this replica's micro-batches. Adds the gradients to the parameters'
  /// gradients. `tracer` may be null. The gather of the last micro-batch's traced gradients runs
  /// until finish().
  double mean_loss(const GlobalBatch& of, trace::Tracer* tracer);
  /// The mean over all replicas. Collective along the data axis.
  double mean_over_replicas(double value) const;
  /// Completes the pending gather of the tracer.
  void finish() { last_.finish(); }

  /// Runs the prompt sets on data replica 0, the traced replica. A set runs only if the plan
  /// captures from it or a program acts on it.
  void run_prompts(const std::vector<data::PromptSet>& sets, std::int64_t step,
                   trace::Tracer& tracer);

  /// Runs one pass over prompts on data replica 0. Returns false if nothing wants the pass; then it
  /// does not run. In the phase kGeneration, the text has prompts with their responses: programs
  /// act as in the generation, which has counted them.
  bool run_prompt(const control::PromptPass& pass) const;

  /// Runs the last training batch, the first evaluation batch and the prompts of a preview, without
  /// dropout. The watch sees the latter two. The gradients are not used.
  std::vector<control::BatchLoss> run_preview(const control::PreviewPasses& passes);

  /// The forward of one micro-batch. mean_loss() runs micro-batches one after another; a pipeline
  /// schedule may have several open.
  OpenForward forward(const GlobalBatch& of, std::int64_t micro_batch, trace::Tracer* tracer);
  /// Runs the backward pass, if the loss has a graph, and ends the interventions.
  void backward(OpenForward& forward) const;

 private:
  data::Batch read(const GlobalBatch& of, std::int64_t micro_batch);
  OpenForward open(const trace::ForwardScope& scope, const trace::PassText& text,
                   trace::Tracer* tracer, trace::InterventionHooks* hooks) const;
  nn::ForwardContext context_of(OpenForward& forward, const trace::ForwardScope& scope,
                                bool drops) const;

  const std::uint64_t seed_;
  const std::int64_t micro_batch_size_;
  const std::int64_t global_batch_;
  const std::int64_t num_micro_batches_;
  const double loss_gradient_;  // of the loss of a micro-batch
  const Groups& groups_;
  const model::Gpt& model_;
  data::Batches& batches_;
  trace::InterventionHooks* const hooks_;
  trace::Pass last_;  // its gather may be pending
};

}  // namespace tt::train
