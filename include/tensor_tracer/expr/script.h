#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/expr/ast.h"
#include "tensor_tracer/expr/limits.h"

namespace tt::expr {

/// One line of a script: `target = value`, or only `value`. Either may follow `if condition:`.
struct Statement {
  NodeId condition = kNoNode;
  NodeId target = kNoNode;  // an expression; the parser does not check its form
  NodeId value = kNoNode;
  Span span = {};
};

/// Statements over one tree of nodes. `ast.root()` is the value of the last statement. `x += y` is
/// read as `x = x + y`, with one node for both x. The same holds for -=, *= and /=.
struct Script {
  Ast ast;
  std::vector<Statement> statements;
};

inline constexpr Limits kScriptLimits{
    .max_source_bytes = 16384, .max_depth = 100, .max_nodes = 4000, .max_digits = 40};
inline constexpr std::size_t kMaxStatements = 200;

/// Reads statements in Python's syntax, one per line: docs/intervention_graph.md. A problem is an
/// Error as in to_error(), never an exception. A script without statements is an error.
/// Thread: any.
base::Result<Script> parse_script(std::string_view source, const Limits& limits = kScriptLimits);

/// True for a word that the parser reads as one name: letters, digits and single underscores, no
/// digit at the start, not a keyword. Thread: any.
bool is_name(std::string_view word);

/// A tree that was built from another format instead of from text.
struct BuiltScript {
  std::vector<Node> nodes;  // each has at most one parent; `text` of leaves as written
  std::vector<Statement> statements;
  std::vector<std::pair<NodeId, std::string>> origins;  // nodes, with the user's names
  std::vector<std::string> statement_origins;           // the same for each statement
};

/// Writes a tree as text, one statement per line, with only the parentheses that are needed, and
/// sets the spans of nodes and statements. parse_script() of the text gives the same tree if all
/// names pass is_name(). REQUIRES: there is at least one statement. Thread: any.
Script write_script(BuiltScript built);

}  // namespace tt::expr
