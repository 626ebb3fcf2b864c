#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/trace/intervention_hooks.h"
#include "tensor_tracer/trace/trace_sink.h"
#include "tensor_tracer/trace/tracer.h"
#include "tensor_tracer/train/program_control.h"

namespace tt::train {

/// Carries out, at step boundaries, what the controller asked for: rank 0 decides, one fixed-size
/// broadcast tells all ranks, so every rank pauses and changes its plan and its programs at the
/// same step. Thread: the thread that runs the step.
class RunControl {
 public:
  /// `control_source` and `sink`: on global rank 0 those of the hub, null without one and
  /// elsewhere. `hooks`: null, or on every rank.
  RunControl(const comm::ProcessGroup& control, trace::ControlSource* control_source,
             trace::TraceSink* sink, trace::Tracer& tracer, trace::InterventionHooks* hooks,
             ProgramControl::Preview preview);

  /// Holds the run until a viewer is connected to the hub. Collective.
  void wait_for_viewer();
  /// Called by every rank before step `step`; returns when the step is to be run, or false when the
  /// run is to end before it. Collective.
  bool before_step(std::int64_t step);
  /// Tells viewers that no step follows and answers what is still open.
  void finish(std::int64_t last_step);
  /// The tracer was given a plan from elsewhere; later plans count on from its number.
  void plan_was_set() { plan_number_ = tracer_.plan().number; }

 private:
  /// Out of the control_source, whose wait() returns at once while it holds any.
  void take_requests();
  void decide(std::int64_t next_step);
  void count_single_step(std::int64_t next_step);
  void carry_out(const trace::Request& request, std::int64_t next_step);
  /// `done`: the last step that was run.
  void answer_done(std::uint64_t id, std::int64_t done);
  void set_paused(std::uint64_t id, bool paused, std::int64_t done);
  void stop(std::uint64_t id, std::int64_t done);
  void begin_single_steps(std::uint64_t id, const protocol::StepRun& request, std::int64_t done);
  void set_plan(std::uint64_t id, const protocol::SetPlan& request, std::int64_t next_step);
  void end_single_steps(std::int64_t done);
  /// True if another message follows before the step.
  bool share_decision(std::int64_t step);
  bool is_held() const { return is_paused_ && single_steps_ == 0 && !must_stop_; }
  void share_plan(std::uint32_t number, std::string text, std::size_t size, std::int64_t step);
  void agree_on_plan(std::int64_t step);
  void disable_switched_off(std::int64_t next_step);
  void notify_state(const char* phase, std::int64_t step) const;

  comm::ProcessGroup control_;
  trace::ControlSource* const control_source_;
  trace::TraceSink* const sink_;
  trace::Tracer& tracer_;
  ProgramControl programs_;
  std::vector<trace::Request> requests_;  // not carried out yet
  bool is_paused_ = false;
  bool must_stop_ = false;
  std::int64_t single_steps_ = 0;  // still to run while paused
  std::optional<std::uint64_t> single_steps_request_;
  std::shared_ptr<const trace::Plan> new_plan_;
  std::uint32_t plan_number_ = 0;
};

}  // namespace tt::train
