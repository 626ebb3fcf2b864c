#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/data/batches.h"
#include "tensor_tracer/data/prompts.h"
#include "tensor_tracer/model/gpt.h"
#include "tensor_tracer/trace/intervention_hooks.h"
#include "tensor_tracer/trace/tracer.h"
#include "tensor_tracer/train/groups.h"

namespace tt::train {

/// A forward pass whose backward may come later.
struct OpenForward {
  trace::Pass pass;
  std::unique_ptr<trace::InterventionPass> interventions;  // null: no program acts
  at::Tensor loss;                                         // of the micro-batch, a scalar
};

/// A global batch, and how the model runs over it.
struct GlobalBatch {
  std::int64_t step = 1;
  trace::Phase phase = trace::Phase::kTrain;  // of the training data, or of the evaluation's
  std::int64_t index = 0;                     // of an evaluation, from 0
  bool drops = false;                         // dropout is on
  bool has_backward = false;
};

/// Runs the model of one rank: over training data, evaluations, prompts and previews. All ranks of
/// the tensor axis do the same in the same order. Thread: the thread that runs the step.
class ForwardRunner {
 public:
  /// What is referred to outlives it; `hooks` may be null. REQUIRES: config passed config::check
  /// for this mesh.
  ForwardRunner(const config::TrainConfig& config, const Groups& groups, const model::Gpt& model,
                data::Batches& batches, trace::InterventionHooks* hooks);

  std::int64_t global_batch() const { return global_batch_; }

  /// The mean loss in nats over this replica's micro-batches. Gradients are added to the
  /// parameters'. `tracer` may be null. The gather of the last gradients goes on until finish().
  double mean_loss(const GlobalBatch& of, trace::Tracer* tracer);
  /// The mean over all replicas. Collective along the data axis.
  double mean_over_replicas(double value) const;
  /// Completes what the tracer has under way.
  void finish() { last_.finish(); }

  /// On the replica that is watched, and there where a viewer watches a set or a program acts on
  /// it.
  void run_prompts(const std::vector<data::PromptSet>& sets, std::int64_t step,
                   trace::Tracer& tracer);

  /// One micro-batch; mean_loss() runs one after the other, a schedule may have several open.
  OpenForward forward(const GlobalBatch& of, std::int64_t micro_batch, trace::Tracer* tracer);
  /// The backward pass, if the loss has a graph, and the end of the interventions.
  void backward(OpenForward& forward) const;

 private:
  data::Batch read(const GlobalBatch& of, std::int64_t micro_batch);
  OpenForward open(const trace::ForwardScope& scope, const at::Tensor& tokens,
                   trace::Tracer* tracer) const;
  nn::ForwardContext context_of(OpenForward& forward, const trace::ForwardScope& scope,
                                bool drops) const;

  const std::uint64_t seed_;
  const std::int64_t micro_batch_size_;
  const std::int64_t global_batch_;
  const std::int64_t num_micro_batches_;
  const Groups& groups_;
  const model::Gpt& model_;
  data::Batches& batches_;
  trace::InterventionHooks* const hooks_;
  trace::Pass last_;  // its gather may be under way
};

}  // namespace tt::train
