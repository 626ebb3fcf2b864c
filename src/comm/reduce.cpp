#include "src/comm/reduce.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "tensor_tracer/base/check.h"

namespace tt::comm::detail {
namespace {

struct Sum {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      // Unsigned, so that an overflow wraps as PyTorch's does.
      using Unsigned = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    } else {
      return a + b;
    }
  }
};

struct Max {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return a > b ? a : b;
    } else {
      if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
      if (a == b) return std::signbit(a) ? b : a;
      return a > b ? a : b;
    }
  }
};

template <typename T>
constexpr bool kHalf = std::is_same_v<T, at::BFloat16> || std::is_same_v<T, at::Half>;

// A block of all sources is read before the target is written, and the sums stay in the first
// level of the cache.
constexpr std::int64_t kBlock = 1024;

template <typename T, typename Op>
void reduce(std::span<const void* const> sources, T* target, std::int64_t count) {
  using Accumulator = std::conditional_t<kHalf<T>, float, T>;
  Accumulator sums[kBlock];
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t length = std::min(kBlock, count - begin);
    const T* first = static_cast<const T*>(sources[0]) + begin;
    for (std::int64_t i = 0; i < length; ++i) sums[i] = static_cast<Accumulator>(first[i]);
    for (const void* source : sources.subspan(1)) {
      const T* next = static_cast<const T*>(source) + begin;
      for (std::int64_t i = 0; i < length; ++i) {
        sums[i] = Op::apply(sums[i], static_cast<Accumulator>(next[i]));
      }
    }
    for (std::int64_t i = 0; i < length; ++i) target[begin + i] = static_cast<T>(sums[i]);
  }
}

template <typename T>
void reduce(std::span<const void* const> sources, void* target, std::int64_t count, ReduceOp op) {
  if (op == ReduceOp::kSum) {
    reduce<T, Sum>(sources, static_cast<T*>(target), count);
  } else {
    reduce<T, Max>(sources, static_cast<T*>(target), count);
  }
}

}  // namespace

bool reducible(at::ScalarType dtype) {
  using enum at::ScalarType;
  return dtype == Double || dtype == Float || dtype == BFloat16 || dtype == Half || dtype == Long ||
         dtype == Int;
}

void reduce_in_order(std::span<const void* const> sources, void* target, Elements elements,
                     ReduceOp op) {
  using enum at::ScalarType;
  switch (elements.dtype) {
    case Double:
      return reduce<double>(sources, target, elements.count, op);
    case Float:
      return reduce<float>(sources, target, elements.count, op);
    case BFloat16:
      return reduce<at::BFloat16>(sources, target, elements.count, op);
    case Half:
      return reduce<at::Half>(sources, target, elements.count, op);
    case Long:
      return reduce<std::int64_t>(sources, target, elements.count, op);
    case Int:
      return reduce<std::int32_t>(sources, target, elements.count, op);
    default:
      base::check_failed(__FILE__, __LINE__,
                         std::string("no reduction of ") + c10::toString(elements.dtype));
  }
}

}  // namespace tt::comm::detail
