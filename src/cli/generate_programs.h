#pragma once

#include <nlohmann/json.hpp>

#include "src/cli/intervention_setup.h"
#include "tensor_tracer/base/result.h"

namespace tt::cli {

/// Checks that generation can run the programs of the setup. Error: names the program and the part
/// that needs a whole sequence or a backward pass. Global rank 0.
base::Status check_generate_programs(const InterventionSetup& setup);

/// Prints the counts of the notification "applied", a line for each program.
void print_generate_programs(const nlohmann::json& applied);

}  // namespace tt::cli
