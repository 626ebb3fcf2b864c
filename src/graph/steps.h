#pragma once

#include "src/graph/reading.h"

/// The steps in which a program is read, in order; each is false after a problem.
namespace tt::graph {

/// Reads every line into `program`, whose script is set: names and places are resolved, the order
/// of reads and writes is not checked.
bool read_statements(Reading& reading, Program& program);

/// Reads `param(...)` into all of the parameter but its name.
bool read_parameter(Reading& reading, expr::NodeId call, Parameter& parameter);

/// Reads `when(...)`. Members that are not given keep their defaults.
bool read_schedule(Reading& reading, expr::NodeId call, Schedule& schedule);

/// Settles the layers that `layer` stands for and checks that every layer named with it exists.
bool settle_layers(Reading& reading, Program& program);

/// Checks that every saved("name") has a save, and that no save waits for its own value.
bool check_saves(Reading& reading, const Program& program);

/// Checks that nothing is used before the forward or backward pass meets it, nothing inside of a
/// skipped layer, and that there are not too many effects.
bool check_order(Reading& reading, const Program& program);

}  // namespace tt::graph
