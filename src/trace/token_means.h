#pragma once

#include <ATen/core/Tensor.h>

#include "tensor_tracer/trace/pass.h"
#include "tensor_tracer/trace/plan.h"

namespace tt::trace {

/// The mean over the tokens that `over` names, row by row: [batch, 1, features] of `local`, which
/// is [batch, tokens, features]; float, or double if `local` is double. The sums are in double. NaN
/// where a row has no such token. Throws std::runtime_error if the pass does not know the tokens.
/// REQUIRES: over is not kNothing.
at::Tensor token_means(MeanOver over, const at::Tensor& local, const PassText& text);

}  // namespace tt::trace
