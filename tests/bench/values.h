#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "tensor_tracer/protocol/record.h"

namespace tt::bench {

/// A record's numbers, row-major, in the smallest type that holds each of them exactly.
using Values = std::variant<std::vector<float>, std::vector<double>, std::vector<std::int32_t>,
                            std::vector<std::int64_t>>;

/// f16 and bf16 widen to float32 exactly; u8 gives offset + code * scale, rounded once to float32.
/// Throws std::runtime_error for a dtype that this version does not know. Thread: any.
Values decode(const protocol::RecordView& record);

}  // namespace tt::bench
