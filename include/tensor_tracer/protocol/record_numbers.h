#pragma once

#include <cstdint>
#include <vector>

#include "tensor_tracer/protocol/record.h"

/// The numbers in a record's payload. Any thread may call the functions here.
namespace tt::protocol {

/// The number that these 16 bits represent in IEEE 754 half precision.
double half_value(std::uint16_t bits);
double bf16_value(std::uint16_t bits);

/// All numbers of the record, row-major. Empty for a dtype that this version does not know.
std::vector<double> numbers_of(const RecordView& record);

}  // namespace tt::protocol
