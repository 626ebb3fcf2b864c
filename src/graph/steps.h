#pragma once

#include "src/graph/reading.h"

/// The steps that read a program, in order. Each step returns false after a problem.
namespace tt::graph {

/// Reads every line into `program`; its script is already set. Names and places are resolved. The
/// order of reads and writes is not checked.
bool read_statements(Reading& reading, Program& program);

/// Reads `param(...)` into all members of the parameter except its name.
bool read_parameter(Reading& reading, expr::NodeId call, Parameter& parameter);

/// Reads `when(...)`. Members that are not given keep their default.
bool read_schedule(Reading& reading, expr::NodeId call, Schedule& schedule);

/// Sets the layers that `layer` stands for, and checks that every layer named with `layer` exists.
bool settle_layers(Reading& reading, Program& program);

/// Checks that every saved("name") has a save, and that no save depends on its own value.
bool check_saves(Reading& reading, const Program& program);

/// Checks that no value is used before the forward or backward pass reaches it, that no place
/// inside a skipped layer is used, and that there are not too many effects.
bool check_order(Reading& reading, const Program& program);

}  // namespace tt::graph
