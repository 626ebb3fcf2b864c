#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tensor_tracer/checkpoint/tensor_store.h"
#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/control/rehearsal.h"
#include "tensor_tracer/control/run_control.h"
#include "tensor_tracer/data/batches.h"
#include "tensor_tracer/data/prompts.h"
#include "tensor_tracer/data/samples.h"
#include "tensor_tracer/model/gpt.h"
#include "tensor_tracer/optim/adamw.h"
#include "tensor_tracer/trace/intervention_hooks.h"
#include "tensor_tracer/trace/trace_sink.h"
#include "tensor_tracer/trace/tracer.h"
#include "tensor_tracer/train/checkpoints.h"
#include "tensor_tracer/train/forward_runner.h"
#include "tensor_tracer/train/gradients.h"
#include "tensor_tracer/train/groups.h"
#include "tensor_tracer/train/hf_writer.h"
#include "tensor_tracer/train/response_text.h"
#include "tensor_tracer/train/update_watch.h"

namespace tt::train {

class PromptResponses;

/// The results of one step; the same on every rank, except for the times.
struct StepReport {
  std::int64_t step = 0;
  double loss = 0.0;  // nats per token, mean over the labels of the global batch that count
  double lr = 0.0;
  double grad_norm = 0.0;  // before clipping
  double tokens_per_second = 0.0;
  double step_ms = 0.0;
  double tracer_ms = 0.0;  // CPU time that this rank's step spent in the tracer
  double gather_ms = 0.0;  // part of tracer_ms in gathers
  double encode_ms = 0.0;  // part of tracer_ms in making records
  std::int64_t consumed_tokens = 0;
  std::optional<double> valid_loss;
};

/// The run cannot continue: a loss or gradient is not finite, a checkpoint does not fit the model,
/// or one of the errors below. Thrown on every rank at the same step.
class TrainError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An export, the last checkpoint or the model at the end cannot be written.
class StorageError : public TrainError {
 public:
  using TrainError::TrainError;
};

/// A folder of PEFT that a run writes at its end.
struct AdapterFolder {
  std::string path;               // empty: none
  nlohmann::json model_config;    // config.json of the model
  nlohmann::json adapter_config;  // adapter_config.json
  bool replaces = false;          // as in HfFolder
};

/// The parts that the caller passes to the trainer. All pointers outlive the trainer.
/// control_source and sink are null if there is no hub or this rank has no connection to it.
struct TrainerParts {
  Groups groups;
  const data::Blend* blend = nullptr;              // the data to train on
  data::Tokenizer tokenize = data::bytes_of;       // for prompts from viewers; global rank 0
  ResponseText response_text;                      // to prompts
  trace::ControlSource* control_source = nullptr;  // global rank 0
  trace::TraceSink* sink = nullptr;                // leaders
  std::uint64_t run_id = 0;
  trace::PlanContext plan_context;
  std::shared_ptr<const trace::Plan> plan;    // the first plan; null: nothing is traced
  trace::InterventionHooks* hooks = nullptr;  // null: no support for programs
  std::vector<data::PromptSet> prompts;       // in the order of the plan context's prompt sets
  std::shared_ptr<const checkpoint::TensorStore> state;     // to resume from; null: a new run
  std::int64_t steps_done = 0;                              // by the run that saved `state`
  std::shared_ptr<const checkpoint::TensorStore> weights;   // to begin from; null: random ones
  std::shared_ptr<const checkpoint::TensorStore> adapters;  // to begin from; null: new ones
  HfFolder save_hf;
  AdapterFolder save_adapters;
  nlohmann::json checkpoint_facts;                    // of the run, for its checkpoints; rank 0
  Checkpoints::OnSaved on_saved;                      // on rank 0
  std::function<void(const StepReport&)> on_step;     // called on every rank
  std::function<void(const std::string&)> on_notice;  // called on every rank with a line for people
  std::function<bool()> is_told_to_stop;  // on global rank 0: the run ends after its step
};

/// A loss or a gradient is not finite. The step was repeated from the same state.
class NonFiniteError : public TrainError {
 public:
  NonFiniteError(const std::string& message, bool is_persistent)
      : TrainError(message), is_persistent_(is_persistent) {}
  /// False: the repeated step was finite.
  bool is_persistent() const { return is_persistent_; }

 private:
  bool is_persistent_;
};

/// CPU seconds of all threads of the ranks, and the part of them that the tracer used on the
/// threads that run the step.
struct TracerCost {
  double tracer_seconds = 0.0;
  double rank_seconds = 0.0;
};

/// The training loop of one rank. Thread: the thread that runs the step.
class Trainer {
 public:
  /// REQUIRES: config passed config::check for this mesh. Collective.
  Trainer(const config::TrainConfig& config, TrainerParts parts);
  ~Trainer();
  /// Runs every step, or those before the run is told to stop. Throws TrainError, comm::CommError.
  void run();
  /// The sum over all ranks so far. Collective.
  TracerCost total_cost() const;

 private:
  void run_steps();
  bool begin_step(std::int64_t number);
  StepReport step(std::int64_t number);
  void update(const StepReport& report);
  void run_prompts(std::int64_t number);
  void run_baseline();
  double evaluate(std::int64_t number);
  void export_step(std::int64_t number, double loss);
  void load();
  control::Saving saving();
  control::Rehearsal rehearsal() const;
  void save(std::int64_t number);
  void save_last(std::int64_t number);
  void save_models() const;
  base::Status read_parameters();
  std::optional<double> valid_loss_of(std::int64_t number) const;
  void notify(const StepReport& report);
  bool recover_from_nonfinite(std::int64_t number);
  [[noreturn]] void repeat_step(const StepReport& report);
  void refuse_bad_weights(const StepReport& report) const;
  bool has_saved(std::int64_t number);
  void notify_interventions(std::int64_t number) const;
  /// Acts only on global rank 0, and only if there is a hub.
  void notify_viewers(std::string_view event, nlohmann::json params) const;
  void notify_phase(const char* phase, std::int64_t step) const;

  const config::TrainConfig config_;
  TrainerParts parts_;
  std::vector<std::int64_t> export_steps_;
  data::Batches batches_;
  model::Gpt model_;
  std::vector<nn::Parameter> parameters_;
  std::vector<nn::Parameter> trained_;  // the optimizer changes them
  GradientReducer gradients_;
  optim::AdamW optimizer_;
  trace::Tracer tracer_;
  UpdateWatch updates_;
  ForwardRunner runner_;
  std::unique_ptr<PromptResponses> responses_;  // null: the run makes none
  std::optional<Checkpoints> checkpoints_;
  std::optional<std::pair<std::int64_t, double>> last_valid_loss_;  // with its step
  control::RunControl control_;
};

/// {"step": …} as in docs/protocol.md. Encode it with protocol::encode_json().
nlohmann::json to_json(const StepReport& report);

/// One line for the console.
std::string to_line(const StepReport& report, std::int64_t train_iters);

}  // namespace tt::train
