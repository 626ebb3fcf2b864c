#pragma once

#include "src/graph/reading.h"

namespace tt::graph {

/// Checks a program whose lines are read and whose layers are settled: nothing is used before the
/// forward or backward pass meets it, nothing inside of a skipped layer, and there are not too many
/// effects. False after a problem.
bool check_order(Reading& reading, const Program& program);

}  // namespace tt::graph
