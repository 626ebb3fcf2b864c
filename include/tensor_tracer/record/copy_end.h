#pragma once

#include <cstdint>
#include <string>

#include "tensor_tracer/base/result.h"

namespace tt::record {

/// Copies the end of a recording, which may still be written, into a new recording: the last steps
/// of its newest run whose records together have at most `max_bytes`, at most 1,000 steps; one step
/// is always copied. Thread: any.
base::Status copy_end(const std::string& from, const std::string& to, std::uint64_t max_bytes);

}  // namespace tt::record
