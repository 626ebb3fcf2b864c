#pragma once

#include <nlohmann/json.hpp>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/intervene/context.h"

namespace tt::intervene {

/// Answers protocol::CheckProgram: what the program would do in this run, or why
/// it is refused. Names, order and limits, and shapes and dtypes on tensors without data for a
/// training forward; no rank is asked and nothing is run. Thread: any.
base::Result<nlohmann::json> check_program(const nlohmann::json& program, const Context& context);

}  // namespace tt::intervene
