#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "src/attach/forward.h"
#include "src/attach/places.h"
#include "src/attach/prompts.h"
#include "src/attach/settings.h"
#include "tensor_tracer/checkpoint/tensor_directory.h"
#include "tensor_tracer/checkpoint/vector_directory.h"
#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/control/hub_session.h"
#include "tensor_tracer/control/rehearsal.h"
#include "tensor_tracer/control/run_control.h"
#include "tensor_tracer/intervene/context.h"
#include "tensor_tracer/trace/tracer.h"

namespace tt::attach {

/// The tracer of one rank inside somebody else's training. First it only has a hub; learn() gives
/// it the places of the model, and from then on it traces. Every rank makes the same calls in the
/// same order. Throws AttachError for wrong input, comm::CommError. Thread: the thread that runs
/// the step.
class Run {
 public:
  /// Starts the hub and takes the groups.
  explicit Run(Settings settings);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// The hub's addresses; null on other ranks, and without a hub.
  const link::HubInfo* hub() const { return hub_ ? &hub_->info() : nullptr; }

  /// Sets the places, and the facts of the run that the model decides. `description`: the places,
  /// the device of their tensors, the numbers of a step, the facts, the prompts; `plan`: on global
  /// rank 0 the first plan, null: the default plan. Returns a warning if the records of this rank
  /// cannot reach the hub, else "". Collective over all ranks.
  std::string learn(const nlohmann::json& description, const nlohmann::json& plan,
                    PromptCalls calls);
  bool has_learned() const { return tracer_.has_value(); }

  /// As control::RunControl::before_step(). REQUIRES: has_learned(). Collective over all ranks.
  bool before_step(std::int64_t step);
  /// False: the forward would be idle. The same on all ranks that share tensors. REQUIRES:
  /// has_learned().
  bool wants(const trace::ForwardScope& scope) const {
    return tracer_->takes(scope) || hooks_->is_due(scope);
  }
  /// REQUIRES: has_learned(). Arguments as of Forward.
  std::unique_ptr<Forward> begin(const trace::ForwardScope& scope, const at::Tensor& tokens,
                                 bool has_text);
  /// Runs the monitored prompts and sends the reports of programs. Collective over all ranks.
  void end_step(std::int64_t step);
  /// As Prompts::take_news(). REQUIRES: has_learned().
  std::string take_prompt_news() { return prompts_->take_news(); }
  /// True if the plan traces the point Updates in this step. The same on every rank.
  bool wants_updates(std::int64_t step) const;
  /// Sends the record of Updates, [1, parameters, columns] of float64 on the CPU. Collective along
  /// the tensor axis. REQUIRES: wants_updates(step).
  void capture_updates(std::int64_t step, const at::Tensor& table);
  void send_event(const std::string& event, nlohmann::json params);
  /// Global rank 0: puts a program in force from the next step on. Returns its description.
  nlohmann::json apply_program(const nlohmann::json& program, std::int64_t next_step);
  /// CPU seconds in the tracer so far.
  double tracer_seconds() const { return tracer_ ? tracer_->seconds().all : 0.0; }
  /// The file of the recording; empty: none.
  std::string recording() const { return hub_ ? hub_->recording() : ""; }
  /// Ends the connection to the hub; the hub then ends. Afterwards the object holds no process
  /// group. `is_collective`: all ranks call it, and the hub ends after the leaders of all pipeline
  /// stages have sent their records.
  void finish(std::int64_t last_step, bool is_collective);

 private:
  void check_agreement(const std::string& description) const;
  void set_contexts(const nlohmann::json& step, at::Device device);
  void share_token_texts(const nlohmann::json& tokenizer);
  void connect(nlohmann::json facts, const trace::Plan& plan);
  std::string connect_leader();
  void run_baseline(std::int64_t step);
  void run_prompts(std::int64_t step);
  trace::Plan first_plan(const nlohmann::json& plan) const;
  base::Result<trace::Plan> read_plan(const nlohmann::json& plan) const;
  base::Result<nlohmann::json> check(const protocol::TrainerRequest& request) const;
  control::Rehearsal rehearsal() const;
  control::ProgramControl::Preview preview_for_control();
  control::PromptControl::Prompts prompts_for_control();
  /// The first tensor rank of data replica 0 of a pipeline stage sends the stage's records.
  bool is_leader() const { return settings_.coordinates.tensor + settings_.coordinates.data == 0; }
  trace::TraceSink* sink() const { return hub_ ? &hub_->client() : leader_.get(); }

  const Settings settings_;
  comm::ProcessGroup control_group_, tracer_group_, tensor_group_;
  std::unique_ptr<control::HubSession> hub_;  // null: no hub, or not global rank 0
  std::unique_ptr<link::HubClient> leader_;   // of a later pipeline stage; null: not its leader
  std::uint64_t run_id_ = 0;                  // 0: no hub
  bool has_baseline_ = false;                 // it was time for it
  std::unique_ptr<checkpoint::VectorDirectory> vectors_;
  std::unique_ptr<checkpoint::TensorDirectory> files_;
  std::shared_ptr<const Places> places_;
  trace::PlanContext plan_context_;
  intervene::Context program_context_;
  std::unique_ptr<trace::InterventionHooks> hooks_;
  std::shared_ptr<trace::DeviceRuntime> runtime_;  // null: the model is on the CPU
  std::optional<Prompts> prompts_;
  std::optional<trace::Tracer> tracer_;
  std::optional<control::RunControl> control_;
};

}  // namespace tt::attach
