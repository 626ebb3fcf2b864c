#include "tests/bench/values.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

namespace tt::bench {
namespace {

using protocol::Dtype;

template <typename T>
std::vector<T> copy_of(std::span<const std::byte> bytes) {
  std::vector<T> out(bytes.size() / sizeof(T));
  if (!out.empty()) {
    std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
  }
  return out;
}

// IEEE 754 binary16.
float from_half(std::uint16_t bits) {
  constexpr int kInfinite = 31;
  const int exponent = bits >> 10U & 0x1FU;
  const auto fraction = static_cast<float>(bits & 0x3FFU);
  const float sign = (bits & 0x8000U) != 0 ? -1.0F : 1.0F;
  if (exponent == kInfinite) {
    return fraction == 0 ? sign * std::numeric_limits<float>::infinity()
                         : std::numeric_limits<float>::quiet_NaN();
  }
  return exponent == 0 ? sign * std::ldexp(fraction, -24)
                       : sign * std::ldexp(1024.0F + fraction, exponent - 25);
}

float from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

std::vector<float> widened(std::span<const std::byte> bytes, float (*widen)(std::uint16_t)) {
  const auto halves = copy_of<std::uint16_t>(bytes);
  std::vector<float> out(halves.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = widen(halves[i]);
  }
  return out;
}

float number_of_code(std::uint8_t code, double offset, double scale) {
  switch (code) {
    case protocol::kU8Nan:
      return std::numeric_limits<float>::quiet_NaN();
    case protocol::kU8PositiveInfinity:
      return std::numeric_limits<float>::infinity();
    case protocol::kU8NegativeInfinity:
      return -std::numeric_limits<float>::infinity();
    default:
      return static_cast<float>(offset + code * scale);
  }
}

std::vector<float> numbers_of_codes(const protocol::RecordView& record) {
  const auto& header = record.header;
  const std::size_t columns = header.ndim == 0 ? 1 : header.shape[header.ndim - 1];
  const std::size_t lines = record.payload.size() / (columns + protocol::kU8LineBytes);
  const auto ends = copy_of<float>(record.payload.first(lines * protocol::kU8LineBytes));
  const auto codes = copy_of<std::uint8_t>(record.payload.subspan(lines * protocol::kU8LineBytes));
  std::vector<float> out(codes.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t line = i / columns;
    out[i] = number_of_code(codes[i], ends[2 * line], ends[2 * line + 1]);
  }
  return out;
}

}  // namespace

Values decode(const protocol::RecordView& record) {
  switch (record.header.dtype) {
    case Dtype::kF64:
      return copy_of<double>(record.payload);
    case Dtype::kF32:
      return copy_of<float>(record.payload);
    case Dtype::kF16:
      return widened(record.payload, from_half);
    case Dtype::kBf16:
      return widened(record.payload, from_bfloat16);
    case Dtype::kI32:
      return copy_of<std::int32_t>(record.payload);
    case Dtype::kI64:
      return copy_of<std::int64_t>(record.payload);
    case Dtype::kU8:
      return numbers_of_codes(record);
  }
  throw std::runtime_error("dtype " + std::to_string(static_cast<int>(record.header.dtype)) +
                           " is not known to this version");
}

}  // namespace tt::bench
