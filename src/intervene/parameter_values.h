#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/graph/program.h"

/// Values of a program's parameters as requests give them.
namespace tt::intervene {

/// Null: the program has no such parameter.
const graph::Parameter* find_parameter(const graph::Program& program, const std::string& name);

/// Error: no number, or one out of the parameter's range.
base::Status check_value(const graph::Parameter& parameter, const nlohmann::json& value);

/// The values with those of `given` by name, or which is wrong.
base::Result<std::map<std::string, double>> with_values(const graph::Program& program,
                                                        std::map<std::string, double> values,
                                                        const nlohmann::json& given);

}  // namespace tt::intervene
