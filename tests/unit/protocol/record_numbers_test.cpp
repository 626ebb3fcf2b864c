#include "tensor_tracer/protocol/record_numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace tt::protocol {
namespace {

std::vector<double> read(Dtype dtype, std::vector<std::uint32_t> shape,
                         const std::vector<std::uint8_t>& payload) {
  RecordHeader header{.dtype = dtype, .ndim = static_cast<std::uint8_t>(shape.size())};
  std::copy(shape.begin(), shape.end(), header.shape.begin());
  std::string bytes;
  append_record(bytes, header, std::as_bytes(std::span(payload)));
  return numbers_of(read_record(bytes).value());
}

template <typename Number>
std::vector<std::uint8_t> bytes_of(const std::vector<Number>& numbers) {
  std::vector<std::uint8_t> bytes(numbers.size() * sizeof(Number));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

TEST(RecordNumbers, EveryDtypeIsRead) {
  const std::vector<double> expected = {1, -2};
  EXPECT_EQ(read(Dtype::kF64, {2}, bytes_of<double>({1, -2})), expected);
  EXPECT_EQ(read(Dtype::kF32, {2}, bytes_of<float>({1, -2})), expected);
  EXPECT_EQ(read(Dtype::kF16, {2}, bytes_of<std::uint16_t>({0x3C00, 0xC000})), expected);
  EXPECT_EQ(read(Dtype::kBf16, {2}, bytes_of<std::uint16_t>({0x3F80, 0xC000})), expected);
  EXPECT_EQ(read(Dtype::kI32, {2}, bytes_of<std::int32_t>({1, -2})), expected);
  EXPECT_EQ(read(Dtype::kI64, {2}, bytes_of<std::int64_t>({1, -2})), expected);
  EXPECT_TRUE(read(Dtype(200), {2}, {1, 2}).empty());
}

TEST(RecordNumbers, CodesAreRelativeToTheirLine) {
  std::vector<std::uint8_t> payload = bytes_of<float>({1, 0.5, -2, 1});  // offset, scale of 2 lines
  payload.insert(payload.end(), {0, 252, 253, 3, 254, 255});
  const std::vector<double> numbers = read(Dtype::kU8, {2, 3}, payload);
  ASSERT_EQ(numbers.size(), 6U);
  EXPECT_EQ(numbers[0], 1);
  EXPECT_EQ(numbers[1], 127);
  EXPECT_TRUE(std::isnan(numbers[2]));
  EXPECT_EQ(numbers[3], 1);
  EXPECT_EQ(numbers[4], INFINITY);
  EXPECT_EQ(numbers[5], -INFINITY);
}

TEST(RecordNumbers, EveryHalfIsItsNumber) {
  // Against the definition, for all 2^16 of them.
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const double sign = bits & 0x8000U ? -1 : 1;
    const int exponent = static_cast<int>(bits >> 10U & 31U);
    const double fraction = (bits & 1023U) / 1024.0;
    const double value = half_value(static_cast<std::uint16_t>(bits));
    if (exponent == 31)
      EXPECT_TRUE(fraction == 0 ? value == sign * INFINITY : std::isnan(value)) << bits;
    else if (exponent == 0)
      EXPECT_EQ(value, sign * fraction * std::pow(2.0, -14)) << bits;
    else
      EXPECT_EQ(value, sign * (1 + fraction) * std::pow(2.0, exponent - 15)) << bits;
  }
}

}  // namespace
}  // namespace tt::protocol
