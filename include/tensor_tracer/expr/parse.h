#pragma once

#include <string_view>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/expr/ast.h"
#include "tensor_tracer/expr/limits.h"

namespace tt::expr {

/// Reads one expression in Python's syntax and precedence: docs/expressions.md. Nothing is looked
/// up, so unknown names pass. Parts of Python that the language leaves out are refused with what to
/// write instead, as is everything past a limit: an Error as in to_error(), never an exception.
/// Thread: any.
base::Result<Ast> parse(std::string_view source, const Limits& limits = {});

}  // namespace tt::expr
