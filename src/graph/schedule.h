#pragma once

#include "src/graph/reading.h"

namespace tt::graph {

/// Reads `when(...)`; false after a problem. Members that are not given keep their defaults.
bool read_schedule(Reading& reading, expr::NodeId call, Schedule& schedule);

}  // namespace tt::graph
