#pragma once

#include "src/eval/call_checker.h"
#include "src/eval/value.h"
#include "tensor_tracer/expr/ast.h"

/// The values of names and attributes; an unknown name becomes a problem of `calls`. Thread: the
/// thread of `calls`.
namespace tt::eval {

Value resolve_name(const expr::Node& node, CallChecker& calls);
/// `object`: the value before the dot.
Value resolve_attribute(const expr::Node& node, const Value& object, CallChecker& calls);

}  // namespace tt::eval
