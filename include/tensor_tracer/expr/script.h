#pragma once

#include <string_view>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/expr/ast.h"
#include "tensor_tracer/expr/limits.h"

namespace tt::expr {

/// One line of a script: `target = value`, or `value` alone, either behind `if condition:`.
struct Statement {
  NodeId condition = kNoNode;
  NodeId target = kNoNode;  // an expression; what may stand there is not the parser's affair
  NodeId value = kNoNode;
  Span span;
};

/// Statements over one tree of nodes; `ast.root()` is the last one's value. `x += y` is read as
/// `x = x + y`, whose two x are one node, and so are -=, *= and /=.
struct Script {
  Ast ast;
  std::vector<Statement> statements;
};

inline constexpr Limits kScriptLimits{
    .max_source_bytes = 16384, .max_depth = 100, .max_nodes = 4000, .max_digits = 40};
inline constexpr std::size_t kMaxStatements = 200;

/// Reads statements in Python's syntax, one to a line: docs/intervention_graph.md. What is wrong is
/// an Error as in to_error(), never an exception. A script without statements is an error.
/// Thread: any.
base::Result<Script> parse_script(std::string_view source, const Limits& limits = kScriptLimits);

}  // namespace tt::expr
