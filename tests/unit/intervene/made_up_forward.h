#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/intervene/context.h"

namespace tt::intervene {

/// What came of a forward and a backward, as logical tensors by place: values as they went on, and
/// the gradients of what was put in under "<place>.grad"; "positions" that were written; "messages"
/// over the tensor axis in the forward and the backward.
using MadeUp = std::map<std::string, at::Tensor>;

/// Goes through every place of a model with made-up tensors, on `ranks` ranks that are threads,
/// with the program in force (empty: none). The sum over all that goes on, each number with a
/// weight of its own, is differentiated. A program that says saved(…) is in its second pass.
MadeUp forward_and_backward(int ranks, std::int64_t query_groups, const std::string& program,
                            at::ScalarType dtype);

/// A model of 3 layers, hidden size 64, 8 heads: micro-batches of 4 rows of 5 tokens.
Context made_up_context(std::int64_t query_groups, const comm::ProcessGroup& group,
                        at::ScalarType dtype);

/// The place of a layer's output in that model.
points::PlaceKey hidden_states(int layer);

/// Also of NaN and -0.0.
bool same_bits(const at::Tensor& a, const at::Tensor& b);

}  // namespace tt::intervene
