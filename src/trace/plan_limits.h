#pragma once

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/trace/plan.h"

namespace tt::trace {

/// That no pass sends or gathers more bytes than the context's limits allow.
base::Status check_pass_bytes(const Plan& plan, const PlanContext& context);

}  // namespace tt::trace
