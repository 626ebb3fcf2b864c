#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "tensor_tracer/train/forward_runner.h"

namespace tt::train {

/// The parts that the run of a typed prompt needs.
struct PromptRunParts {
  ForwardRunner& runner;
  trace::InterventionHooks* hooks;  // null: no support for programs
  const Groups& groups;
  const trace::PlanContext& context;
  const std::uint64_t run_id;
};

/// Answers "prompt.run": runs a text through the model on data replica 0, without programs and, if
/// programs are in force, with them. The run's state does not change. `params`: the text, and the
/// plan as default_prompt_plan() or the viewer wrote it; `contents`: of the files that the plan
/// names. Returns the answer of rank 0. Collective. Thread: the thread that runs the step.
base::Result<nlohmann::json> run_prompt(const PromptRunParts& parts, const nlohmann::json& params,
                                        const trace::FileContents& contents,
                                        std::int64_t steps_done);

}  // namespace tt::train
