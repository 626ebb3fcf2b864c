#pragma once

#include <memory>

#include "src/graph/reading.h"

namespace tt::graph {

/// Reads every line into `program`, whose script is set: names and places are resolved, the order
/// of reads and writes is not checked. False after a problem.
bool read_statements(Reading& reading, Program& program);

}  // namespace tt::graph
