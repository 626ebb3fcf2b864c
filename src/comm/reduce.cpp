#include "src/comm/reduce.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
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
      // Unsigned, so that an overflow wraps as in PyTorch.
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

// The type of a dtype in memory (Stored) and the type of its reduction (Value).

template <typename T, typename Wide = T>
struct Plain {
  using Stored = T;
  using Value = Wide;
  static Value load(Stored stored) { return stored; }
  static Stored store(Value value) { return value; }
};

/// The same conversions as in c10, but on integers and without a branch, so that the compiler
/// vectorizes the loops.
struct BFloat16 {
  using Stored = std::uint16_t;
  using Value = float;
  static Value load(Stored stored) { return std::bit_cast<float>(std::uint32_t{stored} << 16); }
  static Stored store(Value value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t nearest_even = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    return static_cast<Stored>(is_nan ? 0x7fc0 : nearest_even);
  }
};

// Compiled a second time for AVX2. The version is chosen when the program starts. AVX2 is twice as
// fast for bf16 and gives the same bits. Clang does not do this for templates.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define TT_WIDE_VECTORS __attribute__((target_clones("avx2", "default")))
#else
#define TT_WIDE_VECTORS
#endif

// Elements per block. A block of all sources is read before the target is written; the sums fit in
// the first-level cache.
constexpr std::int64_t kBlock = 1024;
constexpr std::int64_t kLineBytes = 64;

/// Prefetches the block after the block at `begin`. The sources are in other cores' caches, and the
/// CPU does not prefetch them early enough (measured: 10 % of an all-reduce of 2 MB).
template <typename T>
void prefetch_next(const T* source, std::int64_t begin, std::int64_t count) {
  const std::int64_t end = std::min(begin + 2 * kBlock, count);
  for (std::int64_t i = begin + kBlock; i < end; i += kLineBytes / sizeof(T))
    __builtin_prefetch(source + i);
}

template <typename Format, typename Op, typename T = typename Format::Stored>
TT_WIDE_VECTORS void reduce_two(const T* first, const T* second, T* target, std::int64_t count) {
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    prefetch_next(first, begin, count);
    prefetch_next(second, begin, count);
    const std::int64_t end = std::min(begin + kBlock, count);
    // The target is one of the sources or does not overlap them.
#pragma GCC ivdep
    for (std::int64_t i = begin; i < end; ++i)
      target[i] = Format::store(Op::apply(Format::load(first[i]), Format::load(second[i])));
  }
}

template <typename Format, typename Op, typename T = typename Format::Stored>
TT_WIDE_VECTORS void reduce_many(std::span<const void* const> sources, T* target,
                                 std::int64_t count) {
  typename Format::Value sums[kBlock];
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t length = std::min(kBlock, count - begin);
    const T* first = static_cast<const T*>(sources[0]) + begin;
    for (std::int64_t i = 0; i < length; ++i) sums[i] = Format::load(first[i]);
    for (const void* source : sources.subspan(1)) {
      prefetch_next(static_cast<const T*>(source), begin, count);
      const T* next = static_cast<const T*>(source) + begin;
      for (std::int64_t i = 0; i < length; ++i) sums[i] = Op::apply(sums[i], Format::load(next[i]));
    }
    for (std::int64_t i = 0; i < length; ++i) target[begin + i] = Format::store(sums[i]);
  }
}

template <typename Format, typename Op>
void reduce(std::span<const void* const> sources, void* target, std::int64_t count) {
  using T = typename Format::Stored;
  if (sources.size() == 2) {
    reduce_two<Format, Op>(static_cast<const T*>(sources[0]), static_cast<const T*>(sources[1]),
                           static_cast<T*>(target), count);
  } else {
    reduce_many<Format, Op>(sources, static_cast<T*>(target), count);
  }
}

template <typename Format>
void reduce(std::span<const void* const> sources, void* target, std::int64_t count, ReduceOp op) {
  if (op == ReduceOp::kSum)
    reduce<Format, Sum>(sources, target, count);
  else
    reduce<Format, Max>(sources, target, count);
}

}  // namespace

bool reducible(at::ScalarType dtype) {
  return dtype == at::kDouble || dtype == at::kFloat || dtype == at::kBFloat16 ||
         dtype == at::kHalf || dtype == at::kLong || dtype == at::kInt;
}

void reduce_in_order(std::span<const void* const> sources, void* target, Elements elements,
                     ReduceOp op) {
  switch (elements.dtype) {
    case at::kDouble:
      return reduce<Plain<double>>(sources, target, elements.count, op);
    case at::kFloat:
      return reduce<Plain<float>>(sources, target, elements.count, op);
    case at::kBFloat16:
      return reduce<BFloat16>(sources, target, elements.count, op);
    case at::kHalf:
      return reduce<Plain<at::Half, float>>(sources, target, elements.count, op);
    case at::kLong:
      return reduce<Plain<std::int64_t>>(sources, target, elements.count, op);
    case at::kInt:
      return reduce<Plain<std::int32_t>>(sources, target, elements.count, op);
    default:
      base::check_failed(__FILE__, __LINE__,
                         std::string("no reduction of ") + c10::toString(elements.dtype));
  }
}

}  // namespace tt::comm::detail
