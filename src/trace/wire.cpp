#include "src/trace/wire.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace tt::trace {
namespace {

using protocol::Dtype;

// ATen rounds many numbers at once.
template <typename Number>
void cast(const Number* numbers, std::int64_t count, at::ScalarType dtype,
          std::vector<std::byte>& out) {
  out.resize(static_cast<std::size_t>(count) * at::elementSize(dtype));
  const at::Tensor from =
      at::from_blob(const_cast<Number*>(numbers), {count}, c10::CppTypeToScalarType<Number>::value);
  at::from_blob(out.data(), {count}, dtype).copy_(from);
}

template <typename Number>
std::uint8_t code_of(Number x, double offset, double scale) {
  if (std::isnan(x)) return protocol::kU8Nan;
  if (std::isinf(x)) return x > 0 ? protocol::kU8PositiveInfinity : protocol::kU8NegativeInfinity;
  if (scale == 0) return 0;
  const double steps = std::nearbyint((static_cast<double>(x) - offset) / scale);
  return static_cast<std::uint8_t>(
      std::clamp(steps, 0.0, static_cast<double>(protocol::kU8Largest)));
}

// Offset and scale of one line: its least finite number stands at code 0, its largest at 252.
template <typename Number>
void encode_line(const Number* line, std::int64_t columns, float* offset_and_scale,
                 std::uint8_t* codes) {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (std::int64_t i = 0; i < columns; ++i) {
    if (!std::isfinite(line[i])) continue;
    least = std::min(least, static_cast<double>(line[i]));
    most = std::max(most, static_cast<double>(line[i]));
  }
  if (!(least <= most)) least = most = 0;
  offset_and_scale[0] = static_cast<float>(least);
  offset_and_scale[1] = static_cast<float>((most - least) / protocol::kU8Largest);
  for (std::int64_t i = 0; i < columns; ++i) {
    codes[i] = code_of(line[i], offset_and_scale[0], offset_and_scale[1]);
  }
}

template <typename Number>
void encode_u8(const Number* numbers, std::int64_t count, std::int64_t columns,
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

template <typename Number>
void encode(const Number* numbers, std::int64_t count, std::int64_t columns, Dtype dtype,
            std::vector<std::byte>& out) {
  switch (dtype) {
    case Dtype::kF64:
      return cast(numbers, count, at::kDouble, out);
    case Dtype::kBf16:
      return cast(numbers, count, at::kBFloat16, out);
    case Dtype::kF16:
      return cast(numbers, count, at::kHalf, out);
    case Dtype::kU8:
      return encode_u8(numbers, count, columns, out);
    default:
      return cast(numbers, count, at::kFloat, out);
  }
}

template void encode(const float*, std::int64_t, std::int64_t, Dtype, std::vector<std::byte>&);
template void encode(const double*, std::int64_t, std::int64_t, Dtype, std::vector<std::byte>&);

}  // namespace tt::trace
