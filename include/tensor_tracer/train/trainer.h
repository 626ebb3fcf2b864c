#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/data/batches.h"
#include "tensor_tracer/data/prompts.h"
#include "tensor_tracer/model/gpt.h"
#include "tensor_tracer/optim/adamw.h"
#include "tensor_tracer/trace/intervention_hooks.h"
#include "tensor_tracer/trace/trace_sink.h"
#include "tensor_tracer/trace/tracer.h"
#include "tensor_tracer/train/forward_runner.h"
#include "tensor_tracer/train/gradients.h"
#include "tensor_tracer/train/groups.h"
#include "tensor_tracer/train/run_control.h"

namespace tt::train {

/// What one step did; the same on every rank but for the times.
struct StepReport {
  std::int64_t step = 0;
  double loss = 0.0;  // nats per token, mean over the global batch
  double lr = 0.0;
  double grad_norm = 0.0;  // before clipping
  double tokens_per_second = 0.0;
  double step_ms = 0.0;
  double tracer_ms = 0.0;  // CPU time that this rank's step spent in the tracer
  double gather_ms = 0.0;  // of it, in gathers
  double encode_ms = 0.0;  // of it, in making records
  std::int64_t consumed_tokens = 0;
  std::optional<double> valid_loss;
};

/// The run cannot go on: a loss or gradient that is not finite, or an export that failed. Thrown
/// on every rank at the same step.
class TrainError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What the trainer is given from outside. All pointers outlive it; control_source and sink are
/// null where there is no hub, or where this rank does not speak with it.
struct TrainerParts {
  Groups groups;
  const data::TextCorpus* corpus = nullptr;
  trace::ControlSource* control_source = nullptr;  // global rank 0
  trace::TraceSink* sink = nullptr;                // leaders
  std::uint64_t run_id = 0;
  trace::PlanContext plan_context;
  std::shared_ptr<const trace::Plan> plan;         // the first one; null: nothing is traced
  trace::InterventionHooks* hooks = nullptr;       // null: the run knows no programs
  std::vector<data::PromptSet> prompts;            // by the plan context's prompt sets
  std::function<void(const StepReport&)> on_step;  // called on every rank
};

/// CPU seconds of ranks with all their threads, and how many of them the tracer took on the threads
/// that run the step.
struct TracerCost {
  double tracer_seconds = 0.0;
  double rank_seconds = 0.0;
};

/// The training loop of one rank. Thread: the thread that runs the step.
class Trainer {
 public:
  /// REQUIRES: config passed config::check for this mesh. Collective.
  Trainer(const config::TrainConfig& config, TrainerParts parts);
  /// Runs every step. Throws TrainError, comm::CommError.
  void run();
  /// What all ranks have spent so far. Collective.
  TracerCost total_cost() const;

 private:
  StepReport step(std::int64_t number);
  void update(const StepReport& report);
  double evaluate(std::int64_t number);
  void export_step(std::int64_t number, double loss);
  void tell(const StepReport& report);
  bool recover_from_nonfinite(std::int64_t number);
  void notify_interventions(std::int64_t number) const;
  /// Global rank 0 alone, and only where there is a hub.
  void notify_viewers(std::string_view event, nlohmann::json params) const;
  void notify_phase(const char* phase, std::int64_t step) const;

  const config::TrainConfig config_;
  TrainerParts parts_;
  std::vector<std::int64_t> export_steps_;
  data::SampleOrder order_;
  data::Batches batches_;
  model::Gpt model_;
  std::vector<nn::Parameter> parameters_;
  GradientReducer gradients_;
  optim::AdamW optimizer_;
  trace::Tracer tracer_;
  ForwardRunner runner_;
  RunControl control_;
};

/// {"step": …} as docs/protocol.md has it, to be encoded by protocol::encode_json().
nlohmann::json to_json(const StepReport& report);

/// One line for people.
std::string to_line(const StepReport& report, std::int64_t train_iters);

}  // namespace tt::train
