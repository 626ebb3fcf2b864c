#pragma once

#include <nlohmann/json.hpp>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/config/option.h"

namespace tt::config {

/// Sets options from an object that has the values of value_of() by flag, such as the fixed values
/// of a checkpoint. Options without a value stay. Error: a value of another type or out of range;
/// `where` is the flag. Thread: as the fields.
base::Status set_values(const Options& options, const nlohmann::json& values);

}  // namespace tt::config
