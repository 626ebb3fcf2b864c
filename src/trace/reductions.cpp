#include "tensor_tracer/trace/reductions.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

// The eight running sums are one vector, which the compiler splits over the registers of the CPU. A
// CPU with AVX2 runs a second version of each function. That version has no fused multiply-add, so
// its bits are the same.
#if defined(__x86_64__)
#define TT_VECTOR_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define TT_VECTOR_CLONES
#endif
#define TT_INLINE inline __attribute__((always_inline))

namespace tt::trace {
namespace {

constexpr std::int64_t kLanes = 8;

template <typename Number>
struct VectorOf;
template <>
struct VectorOf<float> {
  typedef float Lanes __attribute__((vector_size(32), aligned(4)));
  typedef std::int32_t Mask __attribute__((vector_size(32), aligned(4)));
  typedef std::int32_t MaskNumber;
};
template <>
struct VectorOf<double> {
  typedef double Lanes __attribute__((vector_size(64), aligned(8)));
  typedef std::int64_t Mask __attribute__((vector_size(64), aligned(8)));
  typedef std::int64_t MaskNumber;
};

template <typename Number>
using Lanes = typename VectorOf<Number>::Lanes;

template <typename Number>
TT_INLINE void add_lanes(Lanes<Number>& sum, const Number* values) {
  sum += *reinterpret_cast<const Lanes<Number>*>(values);
}

template <typename Number>
TT_INLINE Number tree(const Lanes<Number>& lanes) {
  const Number low = (lanes[0] + lanes[4]) + (lanes[2] + lanes[6]);
  const Number high = (lanes[1] + lanes[5]) + (lanes[3] + lanes[7]);
  return low + high;
}

// Adds the first `count` < 8 numbers, then zeros.
template <typename Number>
TT_INLINE void add_tail(Lanes<Number>& sum, const Number* values, std::int64_t count,
                        bool may_read_eight) {
  using Mask = typename VectorOf<Number>::Mask;
  using MaskNumber = typename VectorOf<Number>::MaskNumber;
  alignas(64) static constexpr MaskNumber kMasks[16] = {-1, -1, -1, -1, -1, -1, -1, -1,
                                                        0,  0,  0,  0,  0,  0,  0,  0};
  if (may_read_eight) {
    const auto mask = *reinterpret_cast<const Mask*>(kMasks + kLanes - count);
    sum += reinterpret_cast<Lanes<Number>>(*reinterpret_cast<const Mask*>(values) & mask);
    return;
  }
  Number tail[kLanes] = {};
  for (std::int64_t i = 0; i < count; ++i) tail[i] = values[i];
  add_lanes(sum, tail);
}

template <typename Number>
TT_INLINE void add_all(Lanes<Number>& sum, const Number* values, std::int64_t n,
                       const Number* readable_end) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) add_lanes(sum, values + i);
  if (i < n) add_tail(sum, values + i, n - i, values + i + kLanes <= readable_end);
}

template <typename Number>
TT_INLINE Number sum_of(const Number* values, std::int64_t n, const Number* readable_end) {
  Lanes<Number> lanes = {};
  add_all(lanes, values, n, readable_end);
  return tree<Number>(lanes);
}

template <typename Number>
struct FourOf {
  typedef Number Type __attribute__((vector_size(4 * sizeof(Number)), aligned(sizeof(Number))));
};
template <typename Number>
using Four = typename FourOf<Number>::Type;

// The first two levels of tree() for two cells. Sums of a and b alternate: a, b, then a, b of the
// second half.
template <typename Number>
TT_INLINE void add_halves(const Lanes<Number>& a, const Lanes<Number>& b, Four<Number>& sums) {
  const Four<Number> x = __builtin_shufflevector(a, a, 0, 1, 2, 3) +  //
                         __builtin_shufflevector(a, a, 4, 5, 6, 7);
  const Four<Number> y = __builtin_shufflevector(b, b, 0, 1, 2, 3) +  //
                         __builtin_shufflevector(b, b, 4, 5, 6, 7);
  sums = __builtin_shufflevector(x, y, 0, 4, 1, 5) + __builtin_shufflevector(x, y, 2, 6, 3, 7);
}

// tree() of four cells at once. Four parameters instead of an array, because an array would live in
// memory.
template <typename Number>
TT_INLINE void trees(const Lanes<Number>& a, const Lanes<Number>& b, const Lanes<Number>& c,
                     const Lanes<Number>& d, Number* sums) {
  Four<Number> x, y;
  add_halves<Number>(a, b, x);
  add_halves<Number>(c, d, y);
  *reinterpret_cast<Four<Number>*>(sums) = __builtin_shufflevector(x, y, 0, 1, 4, 5) +  //
                                           __builtin_shufflevector(x, y, 2, 3, 6, 7);
}

template <typename Number>
TT_INLINE void sums_of(const Number* values, const Number* readable_end, const std::int32_t* widths,
                       std::int64_t count, Number* sums) {
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    Lanes<Number> a = {}, b = {}, c = {}, d = {};
    add_all(a, values, widths[i], readable_end);
    values += widths[i];
    add_all(b, values, widths[i + 1], readable_end);
    values += widths[i + 1];
    add_all(c, values, widths[i + 2], readable_end);
    values += widths[i + 2];
    add_all(d, values, widths[i + 3], readable_end);
    values += widths[i + 3];
    trees<Number>(a, b, c, d, sums + i);
  }
  for (; i < count; ++i) {
    sums[i] = sum_of(values, widths[i], readable_end);
    values += widths[i];
  }
}

template <typename Number>
TT_INLINE Number dot_of(const Number* x, const Number* y, std::int64_t n) {
  Lanes<Number> lanes = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    lanes += *reinterpret_cast<const Lanes<Number>*>(x + i) *
             *reinterpret_cast<const Lanes<Number>*>(y + i);
  }
  Number tail[kLanes] = {};
  for (std::int64_t lane = 0; i < n; ++i, ++lane) tail[lane] = x[i] * y[i];
  add_lanes(lanes, tail);
  return tree<Number>(lanes);
}

// Half of the running sums in double: with eight at once the compiler spills registers to memory.
typedef double Half __attribute__((vector_size(32)));
typedef double Unaligned __attribute__((vector_size(32), aligned(8)));

template <typename Number>
TT_INLINE void load_half(Half& half, const Number* values) {
  half = __builtin_convertvector(*reinterpret_cast<const Four<Number>*>(values), Half);
}

TT_INLINE double tree_of(const Half& sums) { return (sums[0] + sums[2]) + (sums[1] + sums[3]); }

// Sixteen running sums: with fewer, each addition would wait for the one before.
template <typename Number>
TT_INLINE double sum_of_all(const Lines<Number>& numbers) {
  constexpr std::int64_t kHalf = kLanes / 2;
  Half a = {}, b = {}, c = {}, d = {}, x;
  for (std::int64_t line = 0; line < numbers.lines; ++line) {
    const Number* row = numbers.data + line * numbers.stride;
    std::int64_t i = 0;
    for (; i + 4 * kHalf <= numbers.width; i += 4 * kHalf) {
      load_half(x, row + i);
      a += x;
      load_half(x, row + i + kHalf);
      b += x;
      load_half(x, row + i + 2 * kHalf);
      c += x;
      load_half(x, row + i + 3 * kHalf);
      d += x;
    }
    for (std::int64_t lane = 0; i < numbers.width; ++i, ++lane)
      a[lane % kHalf] += static_cast<double>(row[i]);
  }
  return tree_of((a + b) + (c + d));
}

// Four running sums of each power.
struct PowerSums {
  Half second = {}, third = {}, fourth = {};
};

TT_INLINE void add_powers(PowerSums& sums, const Half& away) {
  const Half square = away * away;
  sums.second += square;
  sums.third += square * away;
  sums.fourth += square * square;
}

// Eight running sums of each power: the additions of one half do not wait for those of the other.
template <typename Number>
TT_INLINE Powers powers_of(const Lines<Number>& numbers, double shift) {
  constexpr std::int64_t kHalf = kLanes / 2;
  PowerSums low, high;
  Half x;
  for (std::int64_t line = 0; line < numbers.lines; ++line) {
    const Number* row = numbers.data + line * numbers.stride;
    std::int64_t i = 0;
    for (; i + kLanes <= numbers.width; i += kLanes) {
      load_half(x, row + i);
      add_powers(low, x - shift);
      load_half(x, row + i + kHalf);
      add_powers(high, x - shift);
    }
    for (; i < numbers.width; i += kHalf) {
      Half away = {};
      for (std::int64_t k = i; k < i + kHalf && k < numbers.width; ++k)
        away[k - i] = static_cast<double>(row[k]) - shift;
      add_powers(low, away);
    }
  }
  return {tree_of(low.second + high.second), tree_of(low.third + high.third),
          tree_of(low.fourth + high.fourth)};
}

template <typename Number>
TT_INLINE void add_square(const Number* values, Half& line, Half& column) {
  Half x;
  load_half(x, values);
  x *= x;
  line += x;
  column += x;
}

template <typename Number>
TT_INLINE void add_square_of_one(const Number* value, double& line, double& column) {
  const double square = static_cast<double>(*value) * static_cast<double>(*value);
  line += square;
  column += square;
}

// Four lines at once: their sums do not wait for each other, and a column's sum is stored once.
template <typename Number>
TT_INLINE void add_squares_of_four(const Number* row, std::int64_t stride, std::int64_t width,
                                   double* lines, double* columns) {
  constexpr std::int64_t kHalf = kLanes / 2;
  Half a = {}, b = {}, c = {}, d = {};
  std::int64_t i = 0;
  for (; i + kHalf <= width; i += kHalf) {
    Half column = {};
    add_square(row + i, a, column);
    add_square(row + i + stride, b, column);
    add_square(row + i + 2 * stride, c, column);
    add_square(row + i + 3 * stride, d, column);
    *reinterpret_cast<Unaligned*>(columns + i) += column;
  }
  lines[0] = tree_of(a), lines[1] = tree_of(b), lines[2] = tree_of(c), lines[3] = tree_of(d);
  for (; i < width; ++i)
    for (std::int64_t k = 0; k < 4; ++k)
      add_square_of_one(row + i + k * stride, lines[k], columns[i]);
}

template <typename Number>
TT_INLINE void add_squares(const Lines<Number>& numbers, double* lines, double* columns) {
  constexpr std::int64_t kHalf = kLanes / 2;
  const auto [data, stride, count, width] = numbers;
  for (std::int64_t i = 0; i < width; ++i) columns[i] = 0;
  std::int64_t line = 0;
  for (; line + 4 <= count; line += 4)
    add_squares_of_four(data + line * stride, stride, width, lines + line, columns);
  for (; line < count; ++line) {
    const Number* row = data + line * stride;
    Half sum = {};
    std::int64_t i = 0;
    for (; i + kHalf <= width; i += kHalf) {
      Half column = {};
      add_square(row + i, sum, column);
      *reinterpret_cast<Unaligned*>(columns + i) += column;
    }
    lines[line] = tree_of(sum);
    for (; i < width; ++i) add_square_of_one(row + i, lines[line], columns[i]);
  }
}

// x = n log 2 + r with |r| <= log(2) / 2. e^r is its Taylor polynomial, and n is added to the
// exponent of the result.
TT_INLINE void exponentials_of_eight(const float* x, float* y) {
  typedef VectorOf<float>::Mask Bits;
  constexpr float kTaylor[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
  constexpr float kToWhole = 12582912.0f;    // 1.5 * 2^23: adding it rounds to a whole number
  constexpr float kLog2High = 0.693359375f;  // with few bits, so that n * kLog2High is exact
  constexpr float kLog2Low = static_cast<float>(0.69314718055994530942 - 0.693359375);
  const Lanes<float> at = *reinterpret_cast<const Lanes<float>*>(x);
  const Lanes<float> shifted = at * 1.44269504f + kToWhole;
  const Lanes<float> n = shifted - kToWhole;
  const Lanes<float> r = at - n * kLog2High - n * kLog2Low;
  Lanes<float> sum = Lanes<float>{} + 1.0f / 5040;
  for (const float coefficient : kTaylor) sum = sum * r + coefficient;
  const Lanes<float> whole = Lanes<float>{} + kToWhole;
  const Bits exponent = (reinterpret_cast<Bits>(shifted) - reinterpret_cast<Bits>(whole)) << 23;
  *reinterpret_cast<Lanes<float>*>(y) =
      reinterpret_cast<Lanes<float>>(reinterpret_cast<Bits>(sum) + exponent);
}

TT_INLINE void exponentials_of(const float* x, std::int64_t n, float* y) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) exponentials_of_eight(x + i, y + i);
  if (i == n) return;
  float tail[kLanes] = {};
  for (std::int64_t k = i; k < n; ++k) tail[k - i] = x[k];
  exponentials_of_eight(tail, tail);
  for (std::int64_t k = i; k < n; ++k) y[k] = tail[k - i];
}

typedef std::uint8_t Bytes __attribute__((vector_size(32), aligned(1)));
constexpr std::int64_t kBytes = sizeof(Bytes);

// How many of the first `count` bytes, a multiple of kBytes, have the value. A lane counts to 255.
TT_INLINE std::uint64_t count_of(const std::uint8_t* bytes, std::int64_t count, int value) {
  static_assert(kMaxCounted / kBytes <= 255);
  const Bytes wanted = Bytes{} + static_cast<std::uint8_t>(value);
  Bytes found = {};
  for (std::int64_t i = 0; i < count; i += kBytes)
    found -= reinterpret_cast<Bytes>(*reinterpret_cast<const Bytes*>(bytes + i) == wanted);
  std::uint64_t sum = 0;
  for (std::int64_t lane = 0; lane < kBytes; ++lane) sum += found[lane];
  return sum;
}

// The least byte above 0 and the largest byte; {256, 0} if all are 0.
TT_INLINE std::pair<int, int> range_above_zero(const std::uint8_t* bytes, std::int64_t count) {
  const Bytes one = Bytes{} + std::uint8_t{1};
  Bytes least = Bytes{} + std::uint8_t{255}, most = {};
  for (std::int64_t i = 0; i < count; i += kBytes) {
    const Bytes x = *reinterpret_cast<const Bytes*>(bytes + i);
    const Bytes before = x - one;  // 255 for 0
    least = before < least ? before : least;
    most = x > most ? x : most;
  }
  std::pair<int, int> range = {256, 0};
  for (std::int64_t lane = 0; lane < kBytes; ++lane) {
    range.first = least[lane] + 1 < range.first ? least[lane] + 1 : range.first;
    range.second = most[lane] > range.second ? most[lane] : range.second;
  }
  return range;
}

// The numbers of a tensor have few exponents. So one pass of comparisons for each exponent takes
// less time than increments of counters, which wait for each other.
TT_INLINE void count_exponents_of(const Lines<float>& numbers, std::uint64_t* counts) {
  constexpr int kManyExponents = 64;
  const auto [data, stride, lines, width] = numbers;
  std::uint8_t exponents[kMaxCounted];
  for (std::int64_t line = 0; line < lines; ++line) {
    const float* row = data + line * stride;
    std::uint8_t* const to = exponents + line * width;
    for (std::int64_t i = 0; i < width; ++i)
      to[i] = static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(row[i]) >> 23);
  }
  const std::uint8_t* const end = exponents + lines * width;
  std::int64_t compared = (end - exponents) / kBytes * kBytes;
  const auto [least, most] = range_above_zero(exponents, compared);
  if (most - least < kManyExponents) {
    counts[0] += count_of(exponents, compared, 0);
    for (int e = least; e <= most; ++e) counts[e] += count_of(exponents, compared, e);
  } else {
    compared = 0;
  }
  for (const std::uint8_t* left = exponents + compared; left < end; ++left) ++counts[*left];
}

TT_INLINE void count_exponents_of(const Lines<double>& numbers, std::uint64_t* counts) {
  for (std::int64_t line = 0; line < numbers.lines; ++line) {
    const double* row = numbers.data + line * numbers.stride;
    for (std::int64_t i = 0; i < numbers.width; ++i)
      ++counts[std::bit_cast<std::uint64_t>(row[i]) >> 52 & 0x7ff];
  }
}

template <typename Number>
TT_INLINE Extremes<Number> extremes_of(const Lines<Number>& numbers) {
  constexpr Number kInfinity = std::numeric_limits<Number>::infinity();
  Lanes<Number> least = Lanes<Number>{} + kInfinity, most = -least;
  for (std::int64_t line = 0; line < numbers.lines; ++line) {
    const Number* row = numbers.data + line * numbers.stride;
    std::int64_t i = 0;
    for (; i + kLanes <= numbers.width; i += kLanes) {
      const Lanes<Number> x = *reinterpret_cast<const Lanes<Number>*>(row + i);
      least = x < least ? x : least;
      most = x > most ? x : most;
    }
    for (; i < numbers.width; ++i) {
      least[0] = row[i] < least[0] ? row[i] : least[0];
      most[0] = row[i] > most[0] ? row[i] : most[0];
    }
  }
  Extremes<Number> all{least[0], most[0]};
  for (std::int64_t lane = 1; lane < kLanes; ++lane) {
    all.least = least[lane] < all.least ? least[lane] : all.least;
    all.most = most[lane] > all.most ? most[lane] : all.most;
  }
  return all;
}

template <typename Number>
TT_INLINE bool has_outside(const Number* values, std::int64_t n, Number low, Number high) {
  typename VectorOf<Number>::Mask inside = (Lanes<Number>{} == Lanes<Number>{});
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const Lanes<Number> x = *reinterpret_cast<const Lanes<Number>*>(values + i);
    inside &= (x >= low) & (x <= high);
  }
  typename VectorOf<Number>::MaskNumber all = inside[0];
  for (std::int64_t lane = 1; lane < kLanes; ++lane) all &= inside[lane];
  return all == 0;
}

template <typename Number>
TT_INLINE std::int64_t first_outside_of(const Number* values, std::int64_t n, Number low,
                                        Number high) {
  constexpr std::int64_t kAtOnce = 8 * kLanes;
  std::int64_t i = 0;
  while (i + kAtOnce <= n && !has_outside(values + i, kAtOnce, low, high)) i += kAtOnce;
  while (i < n && values[i] >= low && values[i] <= high) ++i;
  return i;
}

}  // namespace

#define TT_DEFINE_REDUCTIONS(Number)                                                              \
  TT_VECTOR_CLONES Number fixed_order_sum(const Number* values, std::int64_t n) {                 \
    return sum_of(values, n, values + n);                                                         \
  }                                                                                               \
  TT_VECTOR_CLONES void fixed_order_sums(const Number* values, const Number* readable_end,        \
                                         const std::int32_t* widths, std::int64_t count,          \
                                         Number* sums) {                                          \
    sums_of(values, readable_end, widths, count, sums);                                           \
  }                                                                                               \
  TT_VECTOR_CLONES Number fixed_order_dot(const Number* x, const Number* y, std::int64_t n) {     \
    return dot_of(x, y, n);                                                                       \
  }                                                                                               \
  TT_VECTOR_CLONES double sum_of_lines(const Lines<Number>& numbers) {                            \
    return sum_of_all(numbers);                                                                   \
  }                                                                                               \
  TT_VECTOR_CLONES Powers powers_of_lines(const Lines<Number>& numbers, double shift) {           \
    return powers_of(numbers, shift);                                                             \
  }                                                                                               \
  TT_VECTOR_CLONES void squares_of_lines_and_columns(const Lines<Number>& numbers, double* lines, \
                                                     double* columns) {                           \
    add_squares(numbers, lines, columns);                                                         \
  }                                                                                               \
  TT_VECTOR_CLONES void count_exponents(const Lines<Number>& numbers, std::uint64_t* counts) {    \
    count_exponents_of(numbers, counts);                                                          \
  }                                                                                               \
  TT_VECTOR_CLONES Extremes<Number> extremes_of_lines(const Lines<Number>& numbers) {             \
    return extremes_of(numbers);                                                                  \
  }                                                                                               \
  TT_VECTOR_CLONES std::int64_t first_outside(const Number* values, std::int64_t n, Number low,   \
                                              Number high) {                                      \
    return first_outside_of(values, n, low, high);                                                \
  }

TT_VECTOR_CLONES void exponentials(const float* x, std::int64_t n, float* y) {
  exponentials_of(x, n, y);
}
void exponentials(const double* x, std::int64_t n, double* y) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = std::exp(x[i]);
}

TT_DEFINE_REDUCTIONS(float)
TT_DEFINE_REDUCTIONS(double)

}  // namespace tt::trace
