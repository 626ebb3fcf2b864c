#pragma once

#include <ATen/core/Tensor.h>

#include "tensor_tracer/comm/process_group.h"

namespace tt::comm::c10d {

/// result = parts[0] op parts[1] op …, always in this order, on the device of the tensors. bf16 and
/// f16 are reduced in f32 and rounded once, so the bits are those of detail::reduce_in_order (but
/// not the sign of a zero that is a maximum). `result` has the sizes of parts[0], and may overlap
/// `parts`.
void reduce_tensors(const at::Tensor& parts, ReduceOp op, const at::Tensor& result);

}  // namespace tt::comm::c10d
