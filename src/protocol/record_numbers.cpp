#include "tensor_tracer/protocol/record_numbers.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace tt::protocol {
namespace {

template <typename Stored, typename Convert>
std::vector<double> convert_all(std::span<const std::byte> payload, Convert convert) {
  std::vector<double> numbers(payload.size() / sizeof(Stored));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    Stored stored{};
    std::memcpy(&stored, payload.data() + i * sizeof(Stored), sizeof(Stored));
    numbers[i] = convert(stored);
  }
  return numbers;
}

double decoded(std::uint8_t code, const float (&line)[2]) {
  switch (code) {
    case kU8Nan:
      return std::numeric_limits<double>::quiet_NaN();
    case kU8PositiveInfinity:
      return std::numeric_limits<double>::infinity();
    case kU8NegativeInfinity:
      return -std::numeric_limits<double>::infinity();
    default:
      return double{line[0]} + code * double{line[1]};
  }
}

// The offset and the scale of every line stand before all codes.
std::vector<double> u8_numbers(const RecordView& record) {
  const RecordHeader& header = record.header;
  const std::size_t columns = header.ndim == 0 ? 1 : header.shape[header.ndim - 1];
  const std::size_t lines = columns == 0 ? 0 : record.payload.size() / (columns + kU8LineBytes);
  std::size_t at = 0;
  float line[2] = {};
  return convert_all<std::uint8_t>(
      record.payload.subspan(lines * kU8LineBytes), [&](std::uint8_t code) {
        if (at % columns == 0)
          std::memcpy(line, record.payload.data() + at / columns * kU8LineBytes, sizeof line);
        ++at;
        return decoded(code, line);
      });
}

}  // namespace

double half_value(std::uint16_t bits) {
  const int exponent = bits >> 10U & 0x1F;
  const int fraction = bits & 0x3FF;
  double value = std::ldexp(fraction + (exponent > 0 ? 1024 : 0), std::max(exponent, 1) - 25);
  if (exponent == 31) {
    value = fraction == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  }
  return (bits & 0x8000U) != 0 ? -value : value;
}

double bf16_value(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

std::vector<double> numbers_of(const RecordView& record) {
  const std::span<const std::byte> payload = record.payload;
  const auto same = [](auto number) { return static_cast<double>(number); };
  switch (record.header.dtype) {
    case Dtype::kF64:
      return convert_all<double>(payload, same);
    case Dtype::kF32:
      return convert_all<float>(payload, same);
    case Dtype::kF16:
      return convert_all<std::uint16_t>(payload, half_value);
    case Dtype::kBf16:
      return convert_all<std::uint16_t>(payload, bf16_value);
    case Dtype::kI32:
      return convert_all<std::int32_t>(payload, same);
    case Dtype::kI64:
      return convert_all<std::int64_t>(payload, same);
    case Dtype::kU8:
      return u8_numbers(record);
  }
  return {};
}

}  // namespace tt::protocol
