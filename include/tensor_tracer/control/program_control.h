#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/trace/intervention_hooks.h"
#include "tensor_tracer/trace/trace_sink.h"

namespace tt::control {

/// Executes the controller's requests about programs at step boundaries. Global rank 0 takes the
/// requests and sends changes and previews to the other ranks. Thread: the thread that runs the
/// step.
class ProgramControl {
 public:
  /// Runs a preview between steps, on every rank. Returns the answer of rank 0. `contents`: of the
  /// files that its plan and its program name.
  using Preview = std::function<base::Result<nlohmann::json>(
      const nlohmann::json& params, const trace::FileContents& contents, std::int64_t steps_done)>;

  /// Arguments as in RunControl. `plan_context` checks the plan of a preview.
  ProgramControl(const comm::ProcessGroup& control, trace::ControlSource* control_source,
                 trace::TraceSink* sink, const trace::PlanContext& plan_context,
                 trace::InterventionHooks* hooks, Preview preview);

  /// False: the run has no support for programs.
  bool is_on() const { return hooks_ != nullptr; }

  /// Rank 0: executes request `id`; 0: the request needs no answer. REQUIRES: is_on().
  void carry_out(std::uint64_t id, const protocol::ProgramRequest& request, std::int64_t next_step);
  /// Rank 0: takes a preview, which runs at this step boundary. REQUIRES: is_on().
  void take_preview(std::uint64_t id, const protocol::PreviewProgram& request);
  /// Rank 0: answers the requests that set parameters: their values are in force from `next_step`
  /// on.
  void answer_sets(std::int64_t next_step);
  /// Rank 0: true if there is something for share() to broadcast.
  bool has_news() const;

  /// Sizes of the texts that are broadcast after the control message; 0: no such text.
  struct News {
    std::uint32_t program_bytes = 0;  // of the programs' JSON
    std::uint32_t preview_bytes = 0;  // of a preview's parameters
  };
  /// Rank 0: the sizes of the texts that share() will broadcast.
  News take_news(std::int64_t step);
  /// Broadcasts changes of programs and the parameters of a preview. The changes are in force once
  /// every rank has them. `news`: the sizes from rank 0. Collective.
  void share(const News& news, std::int64_t step);
  /// True: run_preview() is due.
  bool has_preview() const { return !preview_params_.empty(); }
  /// Runs the preview and answers it. Collective.
  void run_preview(std::int64_t next_step);

 private:
  void keep_set(std::uint64_t id, const protocol::SetParameter& request, nlohmann::json answer);
  base::Result<trace::FileContents> read_preview_files(
      const protocol::PreviewProgram& request) const;
  void agree_on_changes(std::int64_t step);

  /// A request to set a parameter that is not answered yet.
  struct PendingSet {
    std::uint64_t id = 0;
    nlohmann::json answer;
  };

  comm::ProcessGroup control_;
  trace::ControlSource* const control_source_;
  trace::TraceSink* const sink_;
  const trace::PlanContext& plan_context_;
  trace::InterventionHooks* const hooks_;
  const Preview preview_;
  trace::ProgramChanges changes_;                                           // until they are sent
  std::map<std::pair<std::string, std::string>, PendingSet> pending_sets_;  // program, parameter
  std::optional<std::uint64_t> preview_id_;  // rank 0: id of the waiting preview request
  std::string preview_params_;               // JSON; empty: no preview
  trace::FileContents preview_contents_;
};

}  // namespace tt::control
