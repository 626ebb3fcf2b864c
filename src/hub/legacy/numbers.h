#pragma once

#include <cstdint>
#include <string>

#include "tensor_tracer/protocol/record.h"

namespace tt::hub::dialect {

/// The number of numbers in a record; UINT64_MAX if its dtype is not known.
std::uint64_t count_numbers(const protocol::RecordHeader& header);

/// Appends a record's numbers as JSON, separated by commas. Integers are written unchanged. Other
/// numbers are written as Python writes the same float64 (1.0, not 1). A number that is not finite
/// is written as null. Thread: any.
/// REQUIRES: the dtype is known.
void append_numbers(std::string& out, const protocol::RecordView& record);

}  // namespace tt::hub::dialect
