#pragma once

#include <ATen/core/function_schema.h>

#include <optional>
#include <string>
#include <vector>

#include "src/eval/operator_table.h"
#include "src/eval/plan.h"
#include "src/eval/value.h"
#include "tensor_tracer/expr/ast.h"

namespace tt::eval {

/// One argument as written; `name` is empty for a positional one.
struct Given {
  Value value;
  expr::Span span;
  std::string name;
  expr::Span name_span;
};

/// A call as written.
struct Call {
  std::string name;
  std::optional<Value> self;  // the value before the dot
  expr::Span span;
  expr::Span name_span;
  std::vector<Given> arguments;
};

/// Why a call does not match a schema.
struct Mismatch {
  expr::Span span;
  std::string what;
  std::size_t progress = 0;  // the higher, the closer the call is to the schema
};

/// The arguments of `schema`, in order, from the arguments of the call, by the rules of PyTorch's
/// parser of Python arguments. Returns nullopt and sets `mismatch` if they do not match.
std::optional<std::vector<PlanArgument>> bind(const c10::FunctionSchema& schema,
                                              const OperatorRow& row, const Call& call,
                                              Mismatch& mismatch);

/// "mean(dim, keepdim=False, dtype=None)": the call as a user writes it.
std::string usage(const c10::FunctionSchema& schema, const OperatorRow& row);

/// The keyword names of the schema's arguments.
std::vector<std::string> keyword_names(const c10::FunctionSchema& schema, const OperatorRow& row);

}  // namespace tt::eval
