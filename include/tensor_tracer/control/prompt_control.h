#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/data/prompts.h"
#include "tensor_tracer/trace/file_contents.h"
#include "tensor_tracer/trace/plan.h"
#include "tensor_tracer/trace/trace_sink.h"

namespace tt::control {

/// The shapes of prompt sets, by number.
points::PromptSets::List shapes_of(const std::vector<data::PromptSet>& sets);

/// Executes the controller's requests about prompts at step boundaries. Global rank 0 takes the
/// requests and turns texts into tokens; every rank gets the prompt sets and the prompts to run at
/// the same step. Thread: the thread that runs the step.
class PromptControl {
 public:
  /// Runs a prompt between steps, on every rank. Returns the answer of rank 0. `contents`: of the
  /// files that the plan in `params` names.
  using Run = std::function<base::Result<nlohmann::json>(
      const nlohmann::json& params, const trace::FileContents& contents, std::int64_t steps_done)>;

  /// The prompts of a run. `sets` outlives the object; null: the run has no support for prompts.
  struct Prompts {
    std::vector<data::PromptSet>* sets = nullptr;
    std::int64_t interval = 1;  // steps from one pass over the sets to the next
    Run run = {};
    data::Tokenizer tokenize = data::bytes_of;  // for global rank 0
  };

  /// Arguments as in RunControl. `plan_context` checks plans, and its prompt sets follow `prompts`.
  PromptControl(const comm::ProcessGroup& control, trace::ControlSource* control_source,
                trace::TraceSink* sink, const trace::PlanContext& plan_context, Prompts prompts);

  /// False: the run has no support for prompts.
  bool is_on() const { return prompts_.sets != nullptr; }

  /// Rank 0: takes a prompt, which runs at this step boundary. REQUIRES: is_on().
  void take_run(std::uint64_t id, const protocol::RunPrompt& request);
  /// Rank 0: adds a prompt set. Returns `plan` with entries for the set. After an error nothing has
  /// changed. REQUIRES: is_on().
  base::Result<trace::Plan> keep(const protocol::KeepPrompt& request, const trace::Plan& plan);
  /// Rank 0: removes a prompt set. Returns `plan` without the entries for the set. After an error
  /// nothing has changed. REQUIRES: is_on().
  base::Result<trace::Plan> remove(const std::string& name, trace::Plan plan);
  const data::PromptSet& set(std::uint32_t number) const { return prompts_.sets->at(number - 1); }
  /// Rank 0: tells the viewers the prompt sets of the run from `next_step` on.
  void notify(std::int64_t next_step) const;

  /// Rank 0: true if there is something for share() to broadcast.
  bool has_news() const { return has_new_sets_ || has_run(); }
  /// Rank 0: the size of the text that share() will broadcast; 0: no such text.
  std::uint32_t take_news();
  /// Broadcasts the prompt sets if they changed, and the prompt to run. `bytes`: the size from rank
  /// 0. Collective.
  void share(std::uint32_t bytes);
  /// True: run() is due.
  bool has_run() const { return !run_params_.is_null(); }
  /// Runs the prompt and answers it. Collective.
  void run(std::int64_t next_step);

 private:
  base::Result<data::Prompt> read(const std::string& text) const;
  void put(std::vector<data::PromptSet> sets);

  comm::ProcessGroup control_;
  trace::ControlSource* const control_source_;
  trace::TraceSink* const sink_;
  trace::PlanContext plan_context_;
  const Prompts prompts_;
  bool has_new_sets_ = false;  // rank 0: the other ranks do not have the sets yet
  std::uint64_t run_id_ = 0;   // rank 0: id of the request "prompt.run" that waits
  nlohmann::json run_params_;  // null: no prompt to run
  trace::FileContents run_contents_;
  std::string news_;  // rank 0: the text for share()
};

}  // namespace tt::control
