#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/control/program_control.h"
#include "tensor_tracer/control/prompt_control.h"
#include "tensor_tracer/trace/intervention_hooks.h"
#include "tensor_tracer/trace/trace_sink.h"
#include "tensor_tracer/trace/tracer.h"

namespace tt::control {

/// The checkpoints of a run, on every rank; empty functions: the run saves none.
struct Saving {
  std::function<void(std::int64_t done)> save;  // the state after step `done`; collective
  std::function<void()> report;                 // reports a save that has ended; cheap
};

/// Executes the controller's requests at step boundaries. Rank 0 decides and sends its decision to
/// all ranks with one broadcast of fixed size, so every rank pauses and changes its plan and its
/// programs at the same step. Thread: the thread that runs the step.
class RunControl {
 public:
  /// `control_source` and `sink`: on global rank 0 the connection to the hub; null without a hub
  /// and on all other ranks. `hooks`: set on every rank, or null on every rank. `is_told_to_stop`:
  /// on global rank 0, true if the run must end after its step; may be empty. Collective.
  RunControl(const comm::ProcessGroup& control, trace::ControlSource* control_source,
             trace::TraceSink* sink, trace::Tracer& tracer, trace::InterventionHooks* hooks,
             ProgramControl::Preview preview, PromptControl::Prompts prompts = {},
             std::function<bool()> is_told_to_stop = {}, Saving saving = {});

  /// Holds the run before its first step until a viewer watches it, or a request continues, steps
  /// or pauses it. Requests are carried out meanwhile, as in a pause.
  /// `done`: the last completed step.
  void wait_for_viewer(std::int64_t done = 0);
  /// Every rank calls it before step `step`. Returns true when the step may run, false if the run
  /// ends before this step. Collective.
  bool before_step(std::int64_t step);
  /// Answers or refuses the open requests and sends viewers the state "finished", or "stopped" if
  /// the run was told to stop.
  void finish(std::int64_t last_step);
  /// Global rank 0, before the first step: the plan is in force on every rank from the first step
  /// on.
  void begin_with(trace::Plan plan) { put_plan(std::move(plan)); }
  /// Call it after other code set the tracer's plan; the numbers of later plans continue from its
  /// number.
  void plan_was_set() { plan_number_ = tracer_.plan().number; }

 private:
  /// Moves the requests from control_source to requests_. While control_source holds requests, its
  /// wait() returns at once.
  void take_requests();
  void decide(std::int64_t next_step);
  /// Looks for a signal that ends the run, and for the end of a save.
  void look_around();
  /// The entries of the plan of the next step, as in trace::Demand.
  std::uint64_t demand() const;
  void count_single_step(std::int64_t next_step);
  void carry_out(const trace::Request& request, std::int64_t next_step);
  /// `done`: the last completed step.
  void answer_done(std::uint64_t id, std::int64_t done);
  void set_paused(std::uint64_t id, bool paused, std::int64_t done);
  void put_plan_in_force();
  void stop(std::uint64_t id, std::int64_t done);
  void save(std::uint64_t id, std::int64_t done);
  void begin_single_steps(std::uint64_t id, const protocol::StepRun& request, std::int64_t done);
  void set_plan(std::uint64_t id, const protocol::SetPlan& request, std::int64_t next_step);
  void keep_prompt(std::uint64_t id, const protocol::KeepPrompt& request, std::int64_t next_step);
  void remove_prompt(std::uint64_t id, const protocol::RemovePrompt& request,
                     std::int64_t next_step);
  /// The plan that is in force from the next step on, under the number of the plan after it.
  trace::Plan plan_to_change() const;
  /// Puts a plan in force from the next step on. Returns its JSON form.
  nlohmann::json put_plan(trace::Plan plan);
  void notify_plan(nlohmann::json form, std::int64_t step) const;
  void end_single_steps(std::int64_t done);
  /// Returns true if another message follows before the step.
  bool share_decision(std::int64_t step);
  bool is_held() const {
    return (is_waiting_ || (is_paused_ && single_steps_ == 0)) && !must_stop_;
  }
  void share_plan(std::uint32_t number, std::string text, std::size_t size, std::int64_t step);
  void agree_on_plan(std::int64_t step);
  void disable_switched_off(std::int64_t next_step);
  void notify_state(const char* phase, std::int64_t step) const;

  comm::ProcessGroup control_;
  trace::ControlSource* const control_source_;
  trace::TraceSink* const sink_;
  trace::Tracer& tracer_;
  ProgramControl programs_;
  PromptControl prompts_;
  const std::function<bool()> is_told_to_stop_;
  const Saving saving_;
  std::vector<trace::Request> requests_;  // not executed yet
  bool is_waiting_ = false;               // for a viewer
  bool is_paused_ = false;
  bool must_stop_ = false;
  bool must_save_ = false;
  std::int64_t single_steps_ = 0;  // steps left to run while paused
  std::optional<std::uint64_t> single_steps_request_;
  std::shared_ptr<const trace::Plan> new_plan_;
  std::uint32_t plan_number_ = 0;
};

}  // namespace tt::control
