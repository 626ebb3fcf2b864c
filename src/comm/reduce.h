#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor_tracer/comm/process_group.h"

// Reductions on CPU memory.
namespace tt::comm::detail {

/// The count and dtype of the elements of a reduction.
struct Elements {
  std::int64_t count = 0;
  at::ScalarType dtype = at::ScalarType::Float;
  std::size_t bytes() const { return static_cast<std::size_t>(count) * c10::elementSize(dtype); }
};

inline Elements elements_of(const at::Tensor& tensor) {
  return {.count = tensor.numel(), .dtype = tensor.scalar_type()};
}

/// True for the dtypes that reductions support: f64, f32, bf16, f16, i64, i32.
bool reducible(at::ScalarType dtype);

/// target[i] = sources[0][i] op sources[1][i] op …, always in this order. bf16 and f16 are reduced
/// in f32 and rounded once. The maximum of a number and a NaN is NaN; the maximum of -0 and +0 is
/// +0. `target` may be one of the sources; otherwise they do not overlap. REQUIRES:
/// reducible(elements.dtype), at least one source.
void reduce_in_order(std::span<const void* const> sources, void* target, Elements elements,
                     ReduceOp op);

}  // namespace tt::comm::detail
