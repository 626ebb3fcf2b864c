#pragma once

#include <string>
#include <vector>

#include "src/graph/graph_nodes.h"
#include "tensor_tracer/points/place_table.h"

namespace tt::graph {

/// The name of each node's line, by index; empty for a node without a line. A value without a
/// user's name has no line if it is used at one place only, and no write in between could change
/// its reads. Such a value is written where it is used. Thread: any.
std::vector<std::string> choose_lines(const Graph& graph, const points::PlaceTable& places);

}  // namespace tt::graph
