#pragma once

#include <string>
#include <string_view>
#include <utility>
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
  Span span = {};
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

/// True for a word that the parser reads as one name: letters, digits and single underscores, no
/// digit first, no keyword. Thread: any.
bool is_name(std::string_view word);

/// A tree that was built from another format, and not from text.
struct BuiltScript {
  std::vector<Node> nodes;  // each has one parent at most; `text` of leaves as it is written
  std::vector<Statement> statements;
  std::vector<std::pair<NodeId, std::string>> origins;  // nodes, with the user's names for them
  std::vector<std::string> statement_origins;           // the same for each statement
};

/// Writes a tree as text, one statement to a line, with no more parentheses than needed, and sets
/// the spans of nodes and statements. parse_script() of the text gives the same tree if all names
/// pass is_name(). REQUIRES: there are statements. Thread: any.
Script write_script(BuiltScript built);

}  // namespace tt::expr
