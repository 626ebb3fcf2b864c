#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor_tracer/protocol/record.h"

namespace tt::trace {

/// Writes `numbers` as a record's payload of dtype f64, f32, f16, bf16 or u8, rounded to nearest.
/// `numbers`: float or double [count], row-major with `columns` numbers per line. `out` is resized
/// to the payload.
void encode(const at::Tensor& numbers, std::int64_t columns, protocol::Dtype dtype,
            std::vector<std::byte>& out);

}  // namespace tt::trace
