#pragma once

#include "src/graph/reading.h"

namespace tt::graph {

/// Reads `param(...)` into all of the parameter but its name; false after a problem.
bool read_parameter(Reading& reading, expr::NodeId call, Parameter& parameter);

}  // namespace tt::graph
