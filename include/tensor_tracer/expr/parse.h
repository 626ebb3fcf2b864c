#pragma once

#include <string_view>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/expr/ast.h"
#include "tensor_tracer/expr/limits.h"

namespace tt::expr {

/// Reads one expression in Python's syntax and precedence: docs/expressions.md. Names are not
/// looked up, so unknown names pass. A part of Python outside the language is refused, and the
/// error states the text to write instead. Anything beyond a limit is refused too. A problem is an
/// Error as in to_error(), never an exception.
/// Thread: any.
base::Result<Ast> parse(std::string_view source, const Limits& limits = {});

}  // namespace tt::expr
