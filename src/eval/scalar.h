#pragma once

#include <optional>
#include <string>

#include "src/eval/value.h"
#include "tensor_tracer/expr/ast.h"

namespace tt::eval {

/// Python's arithmetic on numbers: integers stay exact, and a result that does not fit in 64 bits
/// is an error; / gives a float, // and % round down. Returns nullopt and sets `problem` if Python
/// has no result. REQUIRES: is_number() of all operands.
std::optional<Value> calculate(expr::Operator op, const Value& left, const Value& right,
                               std::string& problem);
std::optional<Value> calculate(expr::Operator op, const Value& operand, std::string& problem);

}  // namespace tt::eval
