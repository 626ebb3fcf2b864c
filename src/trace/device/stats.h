#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "src/trace/device/cells.h"

/// The reducer of "stats"; a part of reducers.h, where the rules stand.
namespace tt::trace::device {

// Moments are computed per cell of kLineBlock lines × kColumnBlock columns, counted from logical
// index 0, then merged in logical order. So the order of additions is the same on every mesh.
constexpr std::int64_t kLineBlock = 64;
constexpr std::int64_t kColumnBlock = 64;

/// Moments of finite numbers: count, mean, and the sums of the second to fourth powers of the
/// distances from the mean.
struct Moments {
  double count = 0;
  double mean = 0;
  double m2 = 0;
  double m3 = 0;
  double m4 = 0;
};

/// What a rank sends of a cell of "stats". Norms are Euclidean norms of the finite numbers of one
/// line or column of the cell; -1: the cell has no such line or column.
template <typename Number>
struct CellStats {
  Moments moments = {};
  Number line_norms[kLineBlock] = {};
  Number column_norms[kColumnBlock] = {};
};

/// The exponent bits of a number. All numbers are first counted by these bits.
template <typename Number>
struct Exponents;
template <>
struct Exponents<float> {
  static constexpr int kCount = 256;
  static constexpr int kBias = 127;
  static TT_BOTH int of(float x) { return static_cast<int>(bits_of(x) >> 23 & 0xff); }
};
template <>
struct Exponents<double> {
  static constexpr int kCount = 2048;
  static constexpr int kBias = 1023;
  static TT_BOTH int of(double x) { return static_cast<int>(bits_of(x) >> 52 & 0x7ff); }
};

/// The histogram of "stats": `count` bins from `low` to `high`, or without a range floor(log2 |x|)
/// from -32 to 15, ends included.
struct BinRange {
  static constexpr int kLowestExponent = -32;
  static constexpr int kExponentBins = 48;
  static constexpr int kMaxBins = 1024;
  int count = kExponentBins;
  bool has_range = false;
  double low = 0, high = 0;

  /// The bin of a finite number. REQUIRES: has_range.
  TT_BOTH int bin_of(double x) const {
    const double at = (x - low) / (high - low) * count;
    const double last = count - 1;
    return static_cast<int>(at < 0 ? 0 : (last < at ? last : at));
  }
  /// The bin of the numbers with these exponent bits.
  template <typename Number>
  TT_BOTH int bin_of_exponent(int exponent) const {
    const int bin = exponent - Exponents<Number>::kBias - kLowestExponent;
    return bin < 0 ? 0 : (bin < count ? bin : count - 1);
  }
};

/// The numbers of the tail of "stats"; the bins follow.
enum TailNumber { kLeast, kMost, kZeros, kNans, kPositiveInfinities, kNegativeInfinities, kBins };

/// "stats". The counts of the tail are exact, so their order is free.
template <typename Element_>
struct StatsReducer {
  using Element = Element_;
  using Number = NumberOf<Element>;
  using Value = CellStats<Number>;
  static constexpr int kThreads = 256;
  static constexpr int kLoads = 8;                  // of a thread at once
  static constexpr int kStride = kColumnBlock + 1;  // so that neighbouring lines use other banks
  struct Shared {
    Number values[kLineBlock * kStride];
    unsigned counts[Exponents<Number>::kCount < BinRange::kMaxBins ? BinRange::kMaxBins
                                                                   : Exponents<Number>::kCount];
    double sums[2 * kLanes];
    double second[kLanes], third[kLanes], fourth[kLanes];
    double line_sums[kLineBlock * 4];
    double tail[kBins];
    std::int64_t finite;
  };
  // Numbers in Shared::values.
  struct Block {
    const Number* data;
    std::int64_t lines, width;
    TT_BOTH Number at(std::int64_t line, std::int64_t column) const {
      return data[line * kStride + column];
    }
  };
  BinRange bins = {};

  TT_BOTH void start(std::byte* tail) const { clear(reinterpret_cast<double*>(tail), bins.count); }

  template <typename Team>
  TT_BOTH void begin(Team& team, Shared& shared) const {
    team.each([&](int thread) {
      constexpr int kCount = sizeof shared.counts / sizeof shared.counts[0];
      for (int i = thread; i < kCount; i += kThreads) shared.counts[i] = 0;
      if (thread == 0) clear(shared.tail, 0);
    });
  }

  template <typename Team>
  TT_BOTH void reduce(Team& team, const DeviceCell<Element>& cell, Shared& shared,
                      Value* out) const {
    team.each([&](int thread) { load(team, cell, thread, shared); });
    const Block all{shared.values, cell.lines, cell.width};
    team.each([&](int thread) { add_lane(all, thread, shared); });
    const double sum = sum_of(shared), count = static_cast<double>(cell.lines * cell.width);
    team.each([&](int thread) {
      add_squares_of_lines(all, thread, shared);
      add_squares_of_column(all, thread - kThreads / 4, *out);
      if (is_finite(sum)) add_powers(all, thread - kThreads / 2, sum / count, shared);
    });
    team.each([&](int thread) { write_line_norm(all, thread, shared, *out); });
    if (is_finite(sum)) return write_moments(team, shared, count, sum, *out);
    team.each([&](int thread) {
      if (thread == 0) keep_finite(all, shared);
    });
    // One long line.
    const Block left{shared.values, 1, shared.finite};
    team.each([&](int thread) { add_lane(left, thread, shared); });
    const double left_sum = sum_of(shared), left_count = static_cast<double>(left.width);
    team.each([&](int thread) { add_powers(left, thread, left_sum / left_count, shared); });
    write_moments(team, shared, left_count, left_sum, *out);
  }

  template <typename Team>
  TT_BOTH void finish(Team& team, Shared& shared, std::byte* tail) const {
    auto* const numbers = reinterpret_cast<double*>(tail);
    const int counted = bins.has_range ? bins.count : Exponents<Number>::kCount - 1;
    team.each([&](int thread) {
      for (int i = thread; i < counted; i += kThreads) {
        // Zeros share the exponent of the smallest numbers.
        const bool has_zeros = i == 0 && !bins.has_range;
        const double n = shared.counts[i] - (has_zeros ? shared.tail[kZeros] : 0);
        const int bin = bins.has_range ? i : bins.template bin_of_exponent<Number>(i);
        if (n > 0) team.add(&numbers[kBins + bin], n);
      }
      if (thread == 0) {
        team.take_least(&numbers[kLeast], shared.tail[kLeast]);
        team.take_most(&numbers[kMost], shared.tail[kMost]);
      }
      if (thread >= kZeros && thread < kBins) team.add(&numbers[thread], shared.tail[thread]);
    });
  }

 private:
  static TT_BOTH void clear(double* tail, int count) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    tail[kLeast] = kInfinity;
    tail[kMost] = -kInfinity;
    for (int i = kZeros; i < kBins + count; ++i) tail[i] = 0;
  }

  template <typename Team>
  TT_BOTH void load(Team& team, const DeviceCell<Element>& cell, int thread, Shared& shared) const {
    constexpr Number kInfinity = std::numeric_limits<Number>::infinity();
    Number least = kInfinity, most = -kInfinity;
    double seen[kBins] = {};
    const auto take = [&](Number x, int line, int column) {
      shared.values[line * kStride + column] = x;
      seen[kZeros] += x == 0;
      seen[kNans] += is_nan(x);
      seen[kPositiveInfinities] += x == kInfinity;
      seen[kNegativeInfinities] += x == -kInfinity;
      if (!bins.has_range) team.add(&shared.counts[Exponents<Number>::of(x)], 1U);
      if (!is_finite(x)) return;
      if (bins.has_range) team.add(&shared.counts[bins.bin_of(x)], 1U);
      least = x < least ? x : least;
      most = x > most ? x : most;
    };
    const int width = static_cast<int>(cell.width), count = static_cast<int>(cell.lines) * width;
    if (count == kLineBlock * kColumnBlock) {
      // Several loads at once, so that they do not wait for the counts.
      constexpr int kWidth = kColumnBlock;
      for (int first = thread; first < kLineBlock * kWidth; first += kLoads * kThreads) {
        Number loaded[kLoads];
        for (int i = 0; i < kLoads; ++i) {
          const int at = first + i * kThreads;
          loaded[i] = cell.at(at / kWidth, at % kWidth);
        }
        for (int i = 0; i < kLoads; ++i) {
          const int at = first + i * kThreads;
          take(loaded[i], at / kWidth, at % kWidth);
        }
      }
    } else {
      for (int i = thread; i < count; i += kThreads)
        take(cell.at(i / width, i % width), i / width, i % width);
    }
    team.take_least(&shared.tail[kLeast], static_cast<double>(least));
    team.take_most(&shared.tail[kMost], static_cast<double>(most));
    for (int i = kZeros; i < kBins; ++i)
      if (seen[i] > 0) team.add(&shared.tail[i], seen[i]);
  }

  // Acts on every kStep-th number of each line from `lane` on, in their order; the first four lanes
  // take what is left of a line. Of full lines the loads do not wait for the acts.
  template <int kStep, typename Act>
  static TT_BOTH void for_each_of_lane(const Block& all, int lane, const Act& act) {
    constexpr int kOfLine = kColumnBlock / kStep, kLines = kLoads / kOfLine;
    std::int64_t line = 0;
    for (; all.width == kColumnBlock && line + kLines <= all.lines; line += kLines) {
      Number loaded[kLoads];
      for (int i = 0; i < kLoads; ++i)
        loaded[i] = all.at(line + i / kOfLine, lane + i % kOfLine * kStep);
      for (int i = 0; i < kLoads; ++i) act(double{loaded[i]});
    }
    for (; line < all.lines; ++line) {
      const std::int64_t whole = all.width / kStep * kStep;
      for (std::int64_t i = lane; i < whole; i += kStep) act(double{all.at(line, i)});
      for (std::int64_t i = whole + lane; lane < 4 && i < all.width; i += 4)
        act(double{all.at(line, i)});
    }
  }

  // As sum_of_lines: sixteen lanes.
  static TT_BOTH void add_lane(const Block& all, int lane, Shared& shared) {
    constexpr int kAll = 2 * kLanes;
    if (lane >= kAll) return;
    double sum = 0;
    for_each_of_lane<kAll>(all, lane, [&](double x) { sum += x; });
    shared.sums[lane] = sum;
  }
  static TT_BOTH double tree_of_four(double a, double b, double c, double d) {
    return (a + c) + (b + d);
  }
  static TT_BOTH double sum_of(const Shared& shared) {
    double sums[4];
    for (int i = 0; i < 4; ++i)
      sums[i] = (shared.sums[i] + shared.sums[4 + i]) + (shared.sums[8 + i] + shared.sums[12 + i]);
    return tree_of_four(sums[0], sums[1], sums[2], sums[3]);
  }

  // As powers_of_lines: eight lanes.
  static TT_BOTH void add_powers(const Block& all, int lane, double shift, Shared& shared) {
    if (lane < 0 || lane >= kLanes) return;
    double second = 0, third = 0, fourth = 0;
    for_each_of_lane<kLanes>(all, lane, [&](double x) {
      const double away = x - shift, square = away * away;
      second += square;
      third += square * away;
      fourth += square * square;
    });
    shared.second[lane] = second;
    shared.third[lane] = third;
    shared.fourth[lane] = fourth;
  }
  static TT_BOTH double power_of(const double* lanes) {
    return tree_of_four(lanes[0] + lanes[4], lanes[1] + lanes[5], lanes[2] + lanes[6],
                        lanes[3] + lanes[7]);
  }

  static TT_BOTH double square(const Block& all, std::int64_t line, std::int64_t column) {
    const Number x = all.at(line, column);
    return is_finite(x) ? double{x} * double{x} : 0.0;
  }
  // As squares_of_lines_and_columns. The quarter of a line that a thread adds.
  static TT_BOTH void add_squares_of_lines(const Block& all, int thread, Shared& shared) {
    const std::int64_t line = thread / 4, whole = all.width / 4 * 4;
    double sum = 0;
    for (std::int64_t i = thread % 4; line < all.lines && i < whole; i += 4)
      sum += square(all, line, i);
    shared.line_sums[thread] = sum;
  }
  static TT_BOTH void write_line_norm(const Block& all, int line, const Shared& shared,
                                      Value& out) {
    if (line >= kLineBlock) return;
    const double* quarters = shared.line_sums + line * 4;
    double sum = tree_of_four(quarters[0], quarters[1], quarters[2], quarters[3]);
    for (std::int64_t i = all.width / 4 * 4; line < all.lines && i < all.width; ++i)
      sum += square(all, line, i);
    out.line_norms[line] = static_cast<Number>(line < all.lines ? sqrt(sum) : -1);
  }
  // Four lines at once, but for the columns that are no group of four.
  static TT_BOTH void add_squares_of_column(const Block& all, int column, Value& out) {
    if (column < 0 || column >= kColumnBlock) return;
    double sum = 0;
    std::int64_t line = 0;
    for (; column < all.width / 4 * 4 && line + 4 <= all.lines; line += 4) {
      double four = 0;
      for (std::int64_t i = line; i < line + 4; ++i) four += square(all, i, column);
      sum += four;
    }
    for (; column < all.width && line < all.lines; ++line) sum += square(all, line, column);
    out.column_norms[column] = static_cast<Number>(column < all.width ? sqrt(sum) : -1);
  }

  // Moves the finite numbers to the begin.
  static TT_BOTH void keep_finite(const Block& all, Shared& shared) {
    shared.finite = 0;
    for (std::int64_t line = 0; line < all.lines; ++line) {
      for (std::int64_t i = 0; i < all.width; ++i) {
        const Number x = all.at(line, i);
        if (is_finite(x)) shared.values[shared.finite++] = x;
      }
    }
  }

  template <typename Team>
  static TT_BOTH void write_moments(Team& team, const Shared& shared, double count, double sum,
                                    Value& out) {
    team.each([&](int thread) {
      if (thread > 0) return;
      out.moments = {};
      if (count > 0)
        out.moments = {count, sum / count, power_of(shared.second), power_of(shared.third),
                       power_of(shared.fourth)};
    });
  }
};

}  // namespace tt::trace::device
