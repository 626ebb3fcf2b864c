#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "tensor_tracer/train/forward_runner.h"

namespace tt::train {

/// The parts that a preview needs.
struct PreviewParts {
  ForwardRunner& runner;
  trace::InterventionHooks& hooks;
  const Groups& groups;
  const trace::PlanContext& context;
  const std::vector<data::PromptSet>& prompts;  // in the order of context.prompt_sets
  const std::uint64_t run_id;
};

/// Answers "intervention.preview": runs the last training batch, the first evaluation batch and the
/// prompt sets that the plan watches without and with a program. The run's state does not change.
/// `contents`: of the files that plan and program in `params` name. Returns the answer of rank 0.
/// Collective. Thread: the thread that runs the step.
base::Result<nlohmann::json> run_preview(const PreviewParts& parts, const nlohmann::json& params,
                                         const trace::FileContents& contents,
                                         std::int64_t steps_done);

}  // namespace tt::train
