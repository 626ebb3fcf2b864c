#pragma once

#include <ATen/core/function_schema.h>

#include <optional>

#include "src/eval/operator_table.h"
#include "src/eval/plan.h"
#include "src/eval/value.h"

namespace tt::eval {

/// The value as an argument of this type; nullopt if PyTorch would not accept the value.
std::optional<PlanArgument> convert(const Value& value, const c10::Argument& argument,
                                    const OperatorRow& row);

/// The expected kind of the argument: "an integer", "a tensor", …
std::string expected_kind(const c10::Argument& argument);

}  // namespace tt::eval
