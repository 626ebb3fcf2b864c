#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/expr/ast.h"

namespace tt::expr {

/// A problem in a part of the source.
struct Problem {
  Span span;
  std::string what;    // one sentence without a full stop
  std::string remedy;  // the text to write instead; may be empty
};

/// The error that the author of `source` reads:
///
///     there is no operator "maen", did you mean "mean"? (line 1, column 6)
///       data.maen(dim=-1)
///            ^~~~
///
/// `code` is "invalid_expression", `where` is "line L, column C". Both count from 1, and columns
/// count characters. Control characters and bytes that are not UTF-8 are shown as "?". For a long
/// line, only the part around the problem is shown. Thread: any.
base::Error to_error(std::string_view source, const Problem& problem);

/// The same for a text that has a tree. If the text was written for nodes of another format
/// (Ast::origins), `code` is "invalid_graph", and `where` is the name of the innermost node.
/// Thread: any.
base::Error to_error(const Ast& ast, const Problem& problem);

/// ", did you mean "mean"?" if `word` is similar to one of the known names, else empty. Thread:
/// any.
std::string suggestion(std::string_view word, const std::vector<std::string>& known);

}  // namespace tt::expr
