#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor_tracer/comm/process_group.h"

// Reductions on plain memory of the CPU.
namespace tt::comm::detail {

/// What a reduction works on.
struct Elements {
  std::int64_t count = 0;
  at::ScalarType dtype = at::ScalarType::Float;
  std::size_t bytes() const { return static_cast<std::size_t>(count) * c10::elementSize(dtype); }
};

inline Elements elements_of(const at::Tensor& tensor) {
  return {.count = tensor.numel(), .dtype = tensor.scalar_type()};
}

/// True for the dtypes that reductions take: f64, f32, bf16, f16, i64, i32.
bool reducible(at::ScalarType dtype);

/// target[i] = sources[0][i] op sources[1][i] op …, in this order whatever the count; bf16 and f16
/// in f32, rounded once. The maximum of anything and a NaN is a NaN, that of -0 and +0 is +0.
/// `target` may be one of the sources; otherwise they do not overlap.
/// REQUIRES: reducible(elements.dtype), at least one source.
void reduce_in_order(std::span<const void* const> sources, void* target, Elements elements,
                     ReduceOp op);

}  // namespace tt::comm::detail
