#include "src/trace/wire.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace tt::trace {
namespace {

using protocol::Dtype;

std::uint8_t code_of(double x, double offset, double scale) {
  if (std::isnan(x)) return protocol::kU8Nan;
  if (std::isinf(x)) return x > 0 ? protocol::kU8PositiveInfinity : protocol::kU8NegativeInfinity;
  if (scale == 0) return 0;
  const double steps = std::nearbyint((x - offset) / scale);
  return static_cast<std::uint8_t>(
      std::clamp(steps, 0.0, static_cast<double>(protocol::kU8Largest)));
}

// Encodes one line with an offset and a scale: code 0 is its smallest finite number, 252 its
// largest.
void encode_line(const double* line, std::int64_t columns, float* offset_and_scale,
                 std::uint8_t* codes) {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (std::int64_t i = 0; i < columns; ++i) {
    if (!std::isfinite(line[i])) continue;
    least = std::min(least, line[i]);
    most = std::max(most, line[i]);
  }
  if (!(least <= most)) least = most = 0;
  offset_and_scale[0] = static_cast<float>(least);
  offset_and_scale[1] = static_cast<float>((most - least) / protocol::kU8Largest);
  for (std::int64_t i = 0; i < columns; ++i)
    codes[i] = code_of(line[i], offset_and_scale[0], offset_and_scale[1]);
}

void encode_u8(const double* numbers, std::int64_t count, std::int64_t columns,
               std::vector<std::byte>& out) {
  const std::int64_t lines = columns == 0 ? 0 : count / columns;
  const auto head = static_cast<std::size_t>(lines) * protocol::kU8LineBytes;
  out.resize(head + static_cast<std::size_t>(count));
  auto* codes = reinterpret_cast<std::uint8_t*>(out.data() + head);
  for (std::int64_t line = 0; line < lines; ++line) {
    float offset_and_scale[2];
    encode_line(numbers + line * columns, columns, offset_and_scale, codes + line * columns);
    std::memcpy(out.data() + static_cast<std::size_t>(line) * protocol::kU8LineBytes,
                offset_and_scale, sizeof offset_and_scale);
  }
}

}  // namespace

void encode(const at::Tensor& numbers, std::int64_t columns, Dtype dtype,
            std::vector<std::byte>& out) {
  if (dtype == Dtype::kU8) {
    const at::Tensor exact = numbers.to(at::kDouble);
    return encode_u8(exact.const_data_ptr<double>(), exact.numel(), columns, out);
  }
  const at::ScalarType type = dtype == Dtype::kF64    ? at::kDouble
                              : dtype == Dtype::kBf16 ? at::kBFloat16
                              : dtype == Dtype::kF16  ? at::kHalf
                                                      : at::kFloat;
  // One copy by ATen rounds all numbers.
  out.resize(static_cast<std::size_t>(numbers.numel()) * at::elementSize(type));
  at::from_blob(out.data(), numbers.sizes(), type).copy_(numbers);
}

}  // namespace tt::trace
