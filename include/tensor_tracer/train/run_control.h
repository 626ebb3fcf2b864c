#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/trace/outlet.h"
#include "tensor_tracer/trace/tracer.h"

namespace tt::train {

/// Carries out, at step boundaries, what the controller asked for: rank 0 decides, one fixed-size
/// broadcast tells all ranks, so every rank pauses and changes its plan at the same step.
/// Thread: the thread that runs the step.
class RunControl {
 public:
  /// `inlet` and `outlet`: on global rank 0 those of the hub, null without one and elsewhere.
  RunControl(const comm::ProcessGroup& control, trace::Inlet* inlet, trace::Outlet* outlet,
             trace::Tracer& tracer);

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
  void decide(std::int64_t next_step);
  void carry_out(const trace::Request& request, std::int64_t next_step);
  void set_plan(const trace::Request& request, std::int64_t next_step);
  void end_single_steps(std::int64_t done);
  void share_decision(std::int64_t step);
  void agree_on_plan(std::int64_t step);
  void disable_switched_off(std::int64_t next_step);
  void tell_state(const char* phase, std::int64_t step) const;

  comm::ProcessGroup control_;
  trace::Inlet* const inlet_;
  trace::Outlet* const outlet_;
  trace::Tracer& tracer_;
  bool is_paused_ = false;
  bool must_stop_ = false;
  std::int64_t single_steps_ = 0;  // still to run while paused
  std::optional<std::uint64_t> single_steps_request_;
  std::shared_ptr<const trace::Plan> new_plan_;
  std::uint32_t plan_number_ = 0;
};

}  // namespace tt::train
