#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

// Marks functions that run on the CPU and on a device.
#if defined(__CUDACC__)
#define TT_BOTH __host__ __device__
#else
#define TT_BOTH
#endif

/// The numbers of tensors on a device. No header of libtorch: nvcc compiles this. Thread: any.
namespace tt::trace::device {

/// The bits of a bfloat16 and of a float16, as in tensors.
struct BFloat16 {
  std::uint16_t bits;
};
struct Half {
  std::uint16_t bits;
};

/// What a number of a tensor becomes before it is reduced.
template <typename Element>
using NumberOf = std::conditional_t<std::is_same_v<Element, double>, double, float>;

TT_BOTH inline float float_of_bits(std::uint32_t bits) {
  float number;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}
TT_BOTH inline std::uint32_t bits_of(float number) {
  std::uint32_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  return bits;
}
TT_BOTH inline std::uint64_t bits_of(double number) {
  std::uint64_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  return bits;
}

TT_BOTH inline double to_number(double x) { return x; }
TT_BOTH inline float to_number(float x) { return x; }
TT_BOTH inline float to_number(BFloat16 x) { return float_of_bits(std::uint32_t{x.bits} << 16); }
TT_BOTH inline float to_number(Half x) {
  const std::uint32_t sign = (x.bits & 0x8000U) << 16;
  const std::uint32_t rest = x.bits & 0x7fffU;
  if (rest >= 0x7c00U) return float_of_bits(sign | 0x7f800000U | rest << 13);
  if (rest >= 0x0400U) return float_of_bits(sign | ((rest << 13) + (112U << 23)));
  const float small = static_cast<float>(rest) * 5.9604644775390625e-8f;  // 2^-24
  return sign != 0 ? -small : small;
}

template <typename Number>
TT_BOTH bool is_nan(Number x) {
  return x != x;
}
template <typename Number>
TT_BOTH bool is_finite(Number x) {
  return x - x == 0;
}
template <typename Number>
TT_BOTH Number least_of(Number a, Number b) {
  return b < a ? b : a;
}

}  // namespace tt::trace::device
