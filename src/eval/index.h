#pragma once

#include <vector>

#include "src/eval/call_checker.h"
#include "src/eval/value.h"
#include "tensor_tracer/expr/ast.h"

/// Values of indices. A wrong index becomes a problem of `calls`. Thread: the thread of `calls`.
namespace tt::eval {

/// One item of a subscript; commas separate items.
struct IndexItem {
  Value value;
  expr::Span span;
  bool is_list = false;
};

/// `span`: of the subscript.
Value index_sequence(const Sequence& sequence, const Value& subscript, expr::Span span,
                     CallChecker& calls);
/// REQUIRES: `tensor` is a TensorValue.
Value index_tensor(Value tensor, const std::vector<IndexItem>& items, expr::Span span,
                   CallChecker& calls);

}  // namespace tt::eval
