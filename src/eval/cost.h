#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "src/eval/operator_table.h"

namespace tt::eval {

/// Element operations of a call that reads and writes these tensors; `results` may be empty when
/// they are not known yet, which gives a lower bound.
double estimate_cost(Cost cost, const std::vector<at::Tensor>& arguments,
                     const std::vector<at::Tensor>& results);

/// Elements of the largest tensor that the call makes for itself, beyond what it reads and writes;
/// it holds two of them at one time at most.
double estimate_scratch(Cost cost, const std::vector<at::Tensor>& arguments,
                        const std::vector<at::Tensor>& results);

}  // namespace tt::eval
