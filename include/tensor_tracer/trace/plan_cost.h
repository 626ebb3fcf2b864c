#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "tensor_tracer/trace/plan.h"

namespace tt::trace {

/// The traced passes of a run in addition to its training steps.
struct OtherPasses {
  std::int64_t eval_interval = 0;      // steps; 0: the run is never evaluated
  std::int64_t eval_batches = 1;       // of one evaluation; a batch has as many rows as a step
  std::int64_t monitor_interval = 0;   // steps between passes over the prompts; 0: no such passes
  std::int64_t response_interval = 0;  // the same over prompts with their responses
};

/// The data that one entry sends to the hub, and the work for values that are computed only for
/// capture, as the mean per training step.
struct EntryCost {
  double bytes = 0.0;  // of records with their headers
  double records = 0.0;
  double flops = 0.0;  // on all tensor ranks; entries of one place that share work count it each
};

/// The cost of each entry. Exact for an endless run: it does not count the extra evaluation after
/// the last step of a run. Thread: any.
std::vector<EntryCost> cost_of(const Plan& plan, const PlanContext& context,
                               const OtherPasses& passes);

/// The result of `plan.check` in docs/protocol.md.
nlohmann::json to_json(const std::vector<EntryCost>& costs);

/// Answers protocol::CheckPlan: the data that the plan would send, or the error that refuses it.
/// Changes nothing. Thread: any.
base::Result<nlohmann::json> check_plan(const nlohmann::json& plan, const PlanContext& context,
                                        const OtherPasses& passes);

}  // namespace tt::trace
