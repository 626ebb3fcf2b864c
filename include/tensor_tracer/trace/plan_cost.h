#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "tensor_tracer/trace/plan.h"

namespace tt::trace {

/// The watched passes of a run besides its training steps.
struct OtherPasses {
  std::int64_t eval_interval = 0;     // steps; 0: the run is never evaluated
  std::int64_t eval_batches = 1;      // of one evaluation, as many rows as a step has
  std::int64_t monitor_interval = 0;  // steps between passes over the prompts; 0: none
};

/// What goes to the hub because of an entry, as the mean of a training step.
struct EntryCost {
  double bytes = 0.0;  // of whole records, headers included
  double records = 0.0;
};

/// By entry. Exact for a run without end: its last step, which is evaluated whatever its number is,
/// is not counted apart. Thread: any.
std::vector<EntryCost> cost_of(const Plan& plan, const PlanContext& context,
                               const OtherPasses& passes);

/// The result of `plan.check` in docs/protocol.md.
nlohmann::json to_json(const std::vector<EntryCost>& costs);

}  // namespace tt::trace
