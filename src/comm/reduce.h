#pragma once

#include <span>

#include "src/comm/group_impl.h"

namespace tt::comm::detail {

/// True for the dtypes that reductions take: f64, f32, bf16, f16, i64, i32.
bool reducible(at::ScalarType dtype);

/// target[i] = sources[0][i] op sources[1][i] op …, in this order whatever the count; bf16 and f16
/// in f32, rounded once. The maximum of anything and a NaN is a NaN, that of -0 and +0 is +0.
/// `target` may be one of the sources; otherwise they do not overlap.
/// REQUIRES: reducible(elements.dtype), at least one source.
void reduce_in_order(std::span<const void* const> sources, void* target, Elements elements,
                     ReduceOp op);

}  // namespace tt::comm::detail
