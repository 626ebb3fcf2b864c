#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace tt::intervene {

/// What came of a forward and a backward, as logical tensors by place: values as they went on, and
/// the gradients of what was put in under "<place>.grad"; "positions" that were written.
using MadeUp = std::map<std::string, at::Tensor>;

/// Goes through every place of a model with made-up tensors, on `ranks` ranks that are threads,
/// with the program in force (empty: none). The sum over all that goes on, each number with a
/// weight of its own, is differentiated.
MadeUp forward_and_backward(int ranks, std::int64_t query_groups, const std::string& program,
                            at::ScalarType dtype);

/// Also of NaN and -0.0.
bool same_bits(const at::Tensor& a, const at::Tensor& b);

}  // namespace tt::intervene
