#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/graph/program.h"

namespace tt::graph {

inline constexpr int kGraphVersion = 1;

/// The canonical form: docs/intervention_graph.md, "JSON". Nodes stand behind the nodes they use.
nlohmann::json to_json(const Program& program);

/// The program as text, one statement to a line, with no more parentheses than needed. Its JSON
/// form is that of `program`.
std::string to_text(const Program& program);

/// The text of a graph in JSON, which parse_program() then checks. Errors, code "invalid_graph",
/// name the node: an unknown version, type or member, a node that is not there, a cycle, a value
/// of the wrong kind, more nodes than expr::kScriptLimits. Nothing of `graph` is trusted.
base::Result<std::string> to_text(const nlohmann::json& graph);

/// Reads either form: a string, or an object.
base::Result<Program> read_program(const nlohmann::json& text_or_graph, const Model& model);

}  // namespace tt::graph
