#pragma once

#include "src/graph/reading.h"

namespace tt::graph {

/// Checks that every saved("name") has a save, and one that does not wait for what only it could
/// bring. False after a problem.
bool check_saves(Reading& reading, const Program& program);

}  // namespace tt::graph
