#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor_tracer/protocol/record.h"

namespace tt::trace {

/// Writes numbers, float or double [count] and row-major with `columns` in a line, as a record's
/// payload of dtype f64, f32, f16, bf16 or u8 (rounded to nearest). `out` is resized to the
/// payload.
void encode(const at::Tensor& numbers, std::int64_t columns, protocol::Dtype dtype,
            std::vector<std::byte>& out);

}  // namespace tt::trace
