#pragma once

#include <string>
#include <vector>

#include "src/graph/graph_nodes.h"
#include "tensor_tracer/points/place_table.h"

namespace tt::graph {

/// The name of each node's line, by index; empty for a node without a line. A value without a name
/// of its own stands where it is used, if that is one place and no write in between could change
/// what it reads. Thread: any.
std::vector<std::string> choose_lines(const Graph& graph, const points::PlaceTable& places);

}  // namespace tt::graph
