#pragma once

#include "src/eval/recorder.h"
#include "src/eval/value.h"
#include "tensor_tracer/base/result.h"
#include "tensor_tracer/expr/ast.h"

namespace tt::eval {

/// Adds the calls of a run to the recorder and returns the tensor of the expression under `root`.
/// `takes_number`: a number counts as a tensor without dimensions. Errors as in expr::to_error().
/// Thread: one.
base::Result<TensorValue> check_tensor(const expr::Ast& ast, expr::NodeId root,
                                       const Substitutions& known, bool takes_number,
                                       Recorder& recorder);

}  // namespace tt::eval
