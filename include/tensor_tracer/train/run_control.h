#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/trace/intervention_hooks.h"
#include "tensor_tracer/trace/trace_sink.h"
#include "tensor_tracer/trace/tracer.h"

namespace tt::train {

/// Carries out, at step boundaries, what the controller asked for: rank 0 decides, one fixed-size
/// broadcast tells all ranks, so every rank pauses and changes its plan and its programs at the
/// same step. Thread: the thread that runs the step.
class RunControl {
 public:
  /// Carries out "intervention.preview" between steps, on every rank; the answer of rank 0.
  /// `contents`: of the files that its plan and its program name.
  using Preview = std::function<base::Result<nlohmann::json>(
      const nlohmann::json& params, const trace::FileContents& contents, std::int64_t steps_done)>;

  /// `control_source` and `sink`: on global rank 0 those of the hub, null without one and
  /// elsewhere. `hooks`: null, or on every rank.
  RunControl(const comm::ProcessGroup& control, trace::ControlSource* control_source,
             trace::TraceSink* sink, trace::Tracer& tracer, trace::InterventionHooks* hooks,
             Preview preview);

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
  // interventions.cpp
  void intervene(std::uint64_t id, const protocol::ProgramRequest& request, std::int64_t next_step);
  void answer_sets(std::int64_t next_step);
  void agree_on_programs(const trace::ProgramChanges& changes, std::int64_t step);
  void take_preview(std::uint64_t id, const protocol::PreviewProgram& request);
  base::Result<trace::FileContents> read_preview_files(
      const protocol::PreviewProgram& request) const;
  void run_preview(std::int64_t next_step);

  comm::ProcessGroup control_;
  trace::ControlSource* const control_source_;
  trace::TraceSink* const sink_;
  trace::Tracer& tracer_;
  trace::InterventionHooks* const hooks_;
  const Preview preview_;
  std::vector<trace::Request> requests_;  // not carried out yet
  bool is_paused_ = false;
  bool must_stop_ = false;
  std::int64_t single_steps_ = 0;  // still to run while paused
  std::optional<std::uint64_t> single_steps_request_;
  std::shared_ptr<const trace::Plan> new_plan_;
  std::uint32_t plan_number_ = 0;
  /// Values of parameters that are not answered yet, by program and parameter.
  struct PendingSet {
    std::uint64_t id = 0;
    nlohmann::json answer;
  };
  std::map<std::pair<std::string, std::string>, PendingSet> pending_sets_;
  std::optional<std::uint64_t> preview_id_;  // rank 0: of the request that is to be carried out
  std::string preview_params_;               // JSON; empty: none
  trace::FileContents preview_contents_;
};

}  // namespace tt::train
