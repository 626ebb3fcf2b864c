#pragma once

#include <cstdint>
#include <string>

#include "tensor_tracer/protocol/record.h"

namespace tt::hub::dialect {

/// How many numbers a record has; UINT64_MAX if its dtype is not known.
std::uint64_t count_numbers(const protocol::RecordHeader& header);

/// Appends a record's numbers as JSON, with commas between them: integers as they are, others as
/// Python writes the same float64 (1.0, not 1), and what is not finite as null. Thread: any.
/// REQUIRES: the dtype is known.
void append_numbers(std::string& out, const protocol::RecordView& record);

/// The number that these 16 bits are in IEEE 754 half precision.
double half_value(std::uint16_t bits);

}  // namespace tt::hub::dialect
