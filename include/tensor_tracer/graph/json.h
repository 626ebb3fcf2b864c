#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/graph/program.h"

namespace tt::graph {

inline constexpr int kGraphVersion = 1;

/// Writes the canonical form: docs/intervention_graph.md, "JSON". Each node comes after the nodes
/// that it uses.
nlohmann::json to_json(const Program& program);

/// Reads and checks either form: text, which is a string, or a graph, which is an object. Errors of
/// a text are those of parse_program(). Errors of a graph have the code "invalid_graph", and
/// `where` is the node's id. No part of the graph is trusted. The program's source is then the text
/// of the graph, with the same meaning. Thread: any.
base::Result<Program> read_program(const nlohmann::json& text_or_graph, const Model& model);

}  // namespace tt::graph
