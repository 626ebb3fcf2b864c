#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "src/eval/operator_table.h"

namespace tt::eval {

/// Element operations of a call that reads and writes these tensors; `results` may be empty if they
/// are not known yet; then the cost is a lower bound.
double estimate_cost(Cost cost, const std::vector<at::Tensor>& arguments,
                     const std::vector<at::Tensor>& results);

/// Elements of the largest temporary tensor of the call. The call holds at most two temporaries of
/// this size at one time.
double estimate_scratch(Cost cost, const std::vector<at::Tensor>& arguments,
                        const std::vector<at::Tensor>& results);

}  // namespace tt::eval
