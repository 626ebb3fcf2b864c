#pragma once

#include <nlohmann/json.hpp>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/expr/script.h"
#include "tensor_tracer/points/place_table.h"

namespace tt::graph {

/// The lines of a graph in JSON, and their text. Errors have the code "invalid_graph" and name the
/// node: an unknown version, type or member, a missing node, a cycle, a value of the wrong kind, or
/// more than expr::kScriptLimits. Names and places are not looked up. No part of `graph` is
/// trusted. Thread: any.
base::Result<expr::Script> read_script(const nlohmann::json& graph,
                                       const points::PlaceTable& places);

}  // namespace tt::graph
