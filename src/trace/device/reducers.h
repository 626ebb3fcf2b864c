#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "src/trace/device/cells.h"
#include "src/trace/device/stats.h"

/// The reducers of the compressors: what the kernels of a device run, and what tests run on the
/// CPU. The order of additions is that of trace/reductions.h, so the bits are those of the CPU; but
/// the sign of a zero among least and largest numbers, and double exponentials, may differ. The
/// compiler of a device must not fuse multiplications with additions.
namespace tt::trace::device {

template <typename Number>
struct Lanes {
  Number of[kLanes];
  TT_BOTH Number tree() const {
    const Number low = (of[0] + of[4]) + (of[2] + of[6]);
    const Number high = (of[1] + of[5]) + (of[3] + of[7]);
    return low + high;
  }
};

/// The running sum of one lane: of every eighth term.
template <typename Number, typename Term>
TT_BOTH Number lane_sum(int lane, std::int64_t count, const Term& term) {
  Number sum = 0;
  for (std::int64_t i = lane; i < count; i += kLanes) sum += term(i);
  return sum;
}

/// "none".
template <typename Element>
struct CopyReducer : PlainReducer<Element> {
  using Value = NumberOf<Element>;
  static constexpr int kThreads = kLanes;
  struct Shared {};
  template <typename Team>
  TT_BOTH void reduce(Team& team, const DeviceCell<Element>& cell, Shared&, Value* out) const {
    copy_cell(team, cell, out);
  }
};

/// The columns of "top_tokens": the first number of each cell.
template <typename Element>
struct FirstReducer : PlainReducer<Element> {
  using Value = NumberOf<Element>;
  static constexpr int kThreads = kLanes;
  struct Shared {};
  template <typename Team>
  TT_BOTH void reduce(Team& team, const DeviceCell<Element>& cell, Shared&, Value* out) const {
    team.each([&](int thread) {
      if (thread == 0) *out = cell.at(0, 0);
    });
  }
};

/// "tile" with "sum" and with "mean".
template <typename Element, bool kIsMean>
struct TileReducer : PlainReducer<Element> {
  using Value = NumberOf<Element>;
  static constexpr int kThreads = kLanes;
  using Shared = Lanes<Value>;
  template <typename Team>
  TT_BOTH void reduce(Team& team, const DeviceCell<Element>& cell, Shared& shared,
                      Value* out) const {
    team.each([&](int lane) {
      shared.of[lane] =
          lane_sum<Value>(lane, cell.width, [&](std::int64_t i) { return cell.at(0, i); });
    });
    team.each([&](int thread) {
      if (thread > 0) return;
      const Value sum = shared.tree();
      *out = kIsMean ? sum / static_cast<Value>(cell.width) : sum;
    });
  }
};
template <typename Element>
using SumReducer = TileReducer<Element, false>;
template <typename Element>
using MeanReducer = TileReducer<Element, true>;

/// "tile" with "absmax": the largest |x|; NaN if there is one.
template <typename Element>
struct AbsoluteMaxReducer : PlainReducer<Element> {
  using Value = NumberOf<Element>;
  static constexpr int kThreads = kLanes;
  using Shared = Lanes<Value>;
  template <typename Team>
  TT_BOTH void reduce(Team& team, const DeviceCell<Element>& cell, Shared& shared,
                      Value* out) const {
    team.each([&](int lane) {
      shared.of[lane] = 0;
      for (std::int64_t i = lane; i < cell.width; i += kLanes) take(shared.of[lane], cell.at(0, i));
    });
    team.each([&](int thread) {
      if (thread > 0) return;
      *out = 0;
      for (const Value size : shared.of) take(*out, size);
    });
  }

 private:
  static TT_BOTH void take(Value& most, Value x) {
    const Value size = std::abs(x);
    if (!(size <= most)) most = is_nan(most) ? most : size;
  }
};

/// "projection": the dot products of a line's part with each vector, and with `adds_square` with
/// itself. vectors[k] has as many numbers as the logical tensor has columns.
template <typename Element>
struct DotReducer : PlainReducer<Element> {
  using Value = NumberOf<Element>;
  static constexpr int kThreads = kLanes;
  using Shared = Lanes<Value>;
  const Value* vectors = nullptr;
  std::int64_t count = 0, columns = 0;
  bool adds_square = false;

  template <typename Team>
  TT_BOTH void reduce(Team& team, const DeviceCell<Element>& cell, Shared& shared,
                      Value* out) const {
    for (std::int64_t k = 0; k < count; ++k) {
      const Value* vector = vectors + k * columns + cell.first_column;
      sum(
          team, cell, shared, [&](std::int64_t i) { return cell.at(0, i) * vector[i]; }, out + k);
    }
    if (adds_square)
      sum(
          team, cell, shared, [&](std::int64_t i) { return cell.at(0, i) * cell.at(0, i); },
          out + count);
  }

 private:
  template <typename Team, typename Term>
  static TT_BOTH void sum(Team& team, const DeviceCell<Element>& cell, Shared& shared,
                          const Term& term, Value* out) {
    team.each([&](int lane) { shared.of[lane] = lane_sum<Value>(lane, cell.width, term); });
    team.each([&](int thread) {
      if (thread == 0) *out = shared.tree();
    });
  }
};

/// Sums over the columns of a cell, of x - largest: of its exponential, and of both multiplied.
template <typename Number>
struct SoftmaxSums {
  Number largest = 0;
  Number exponentials = 0;
  Number weighted = 0;
  Number target = 0;  // the target's score, if the cell has the target's column
};

/// As exponentials() of trace/reductions.h.
TT_BOTH inline float exponential(float x) {
  constexpr float kTaylor[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
  constexpr float kToWhole = 12582912.0f;
  constexpr float kLog2High = 0.693359375f;
  constexpr float kLog2Low = static_cast<float>(0.69314718055994530942 - 0.693359375);
  const float shifted = x * 1.44269504f + kToWhole;
  const float n = shifted - kToWhole;
  const float r = x - n * kLog2High - n * kLog2Low;
  float sum = 1.0f / 5040;
  for (const float coefficient : kTaylor) sum = sum * r + coefficient;
  return float_of_bits(bits_of(sum) + ((bits_of(shifted) - bits_of(kToWhole)) << 23));
}
TT_BOTH inline double exponential(double x) { return exp(x); }

/// The softmax of "topk" over a vocabulary. targets[line]: the line's target; null: unknown.
template <typename Element>
struct SoftmaxReducer : PlainReducer<Element> {
  using Number = NumberOf<Element>;
  using Value = SoftmaxSums<Number>;
  static constexpr int kThreads = kLanes;
  struct Shared {
    Lanes<Number> largest, exponentials, weighted;
    Lanes<bool> has_nan;
  };
  const std::int64_t* targets = nullptr;

  template <typename Team>
  TT_BOTH void reduce(Team& team, const DeviceCell<Element>& cell, Shared& shared,
                      Value* out) const {
    team.each([&](int lane) { find_largest(cell, lane, shared); });
    const Number largest = largest_of(shared);
    team.each([&](int lane) {
      Number sum = 0, weighted = 0;
      for (std::int64_t i = lane; i < cell.width && is_finite(largest); i += kLanes) {
        constexpr Number kLeast = -87;  // a smaller difference has no weight
        const Number difference = cell.at(0, i) - largest;
        const Number away = difference < kLeast ? kLeast : difference;
        const Number weight = exponential(away);
        sum += weight;
        weighted += weight * away;
      }
      shared.exponentials.of[lane] = sum;
      shared.weighted.of[lane] = weighted;
    });
    team.each([&](int thread) {
      if (thread > 0) return;
      *out = {largest, shared.exponentials.tree(), shared.weighted.tree(), target_score(cell)};
      if (is_nan(largest)) out->exponentials = out->weighted = largest;
    });
  }

 private:
  static TT_BOTH void find_largest(const DeviceCell<Element>& cell, int lane, Shared& shared) {
    Number most = -std::numeric_limits<Number>::infinity();
    bool has_nan = false;
    for (std::int64_t i = lane; i < cell.width; i += kLanes) {
      const Number x = cell.at(0, i);
      has_nan = has_nan || is_nan(x);
      most = x > most ? x : most;
    }
    shared.largest.of[lane] = most;
    shared.has_nan.of[lane] = has_nan;
  }

  static TT_BOTH Number largest_of(const Shared& shared) {
    Number most = shared.largest.of[0];
    for (int lane = 0; lane < kLanes; ++lane) {
      if (shared.has_nan.of[lane]) return std::numeric_limits<Number>::quiet_NaN();
      if (shared.largest.of[lane] > most) most = shared.largest.of[lane];
    }
    return most;
  }

  TT_BOTH Number target_score(const DeviceCell<Element>& cell) const {
    const std::int64_t column =
        (targets == nullptr ? -1 : targets[cell.first_line]) - cell.first_column;
    return column >= 0 && column < cell.width ? cell.at(0, column) : Number{0};
  }
};

template <typename Number>
struct Candidate {
  Number value = 0;
  Number column = 0;  // exact: columns are fewer than 2^24
};

/// The order of "topk".
struct ByValue {
  static constexpr std::string_view kKind = "topk";
  template <typename Number>
  static TT_BOTH Number key(Number value) {
    return value;
  }
};
/// The order of "outliers".
struct ByMagnitude {
  static constexpr std::string_view kKind = "outliers";
  template <typename Number>
  static TT_BOTH Number key(Number value) {
    return std::abs(value);
  }
};

/// A NaN comes before all numbers, so that it is visible. Equal keys are ordered by column.
template <typename Order, typename Number>
TT_BOTH bool is_better(const Candidate<Number>& a, const Candidate<Number>& b) {
  const bool a_nan = is_nan(a.value), b_nan = is_nan(b.value);
  if (a_nan != b_nan) return a_nan;
  const Number a_key = Order::key(a.value), b_key = Order::key(b.value);
  if (!a_nan && a_key != b_key) return a_key > b_key;
  return a.column < b.column;
}

constexpr int kMaxBest = 256;

/// "topk" and "outliers": the best k columns of a line, at most kMaxBest. The candidates that may
/// be among them are kept; when their space is full they are sorted, and only the best stay.
template <typename Order, typename Element>
struct BestReducer : PlainReducer<Element> {
  using Number = NumberOf<Element>;
  using Value = Candidate<Number>;
  static constexpr int kThreads = 256;
  static constexpr int kSpace = 1024;
  struct Shared {
    alignas(Value) std::byte candidates[kSpace * sizeof(Value)];
    unsigned long long used;
  };
  std::int64_t k = 0;

  template <typename Team>
  TT_BOTH void reduce(Team& team, const DeviceCell<Element>& cell, Shared& shared,
                      Value* out) const {
    Value* const kept = reinterpret_cast<Value*>(shared.candidates);
    const auto wanted = static_cast<unsigned long long>(least_of(k, cell.width));
    bool is_cut = false;  // then kept[wanted - 1] is the worst that counts
    team.each([&](int thread) {
      if (thread == 0) shared.used = 0;
    });
    for (std::int64_t begin = 0; begin < cell.width; begin += kThreads) {
      if (team.value(shared.used) + kThreads > kSpace) {
        keep_best(team, shared, wanted);
        is_cut = true;
      }
      team.each([&](int thread) {
        if (begin + thread >= cell.width) return;
        const Value next{cell.at(0, begin + thread),
                         static_cast<Number>(cell.first_column + begin + thread)};
        if (!is_cut || is_better<Order>(next, kept[wanted - 1]))
          kept[team.add(&shared.used, 1ULL)] = next;
      });
    }
    keep_best(team, shared, wanted);
    team.each([&](int thread) {
      for (unsigned long long i = thread; i < wanted; i += kThreads) out[i] = kept[i];
    });
  }

 private:
  // A bitonic sort of the whole space, the best first.
  template <typename Team>
  static TT_BOTH void keep_best(Team& team, Shared& shared, unsigned long long wanted) {
    Value* const kept = reinterpret_cast<Value*>(shared.candidates);
    team.each([&](int thread) {
      for (int i = thread; i < kSpace; i += kThreads)
        if (static_cast<unsigned long long>(i) >= shared.used) kept[i] = worst();
    });
    for (int size = 2; size <= kSpace; size *= 2) {
      for (int step = size / 2; step > 0; step /= 2) {
        team.each([&](int thread) {
          for (int i = thread; i < kSpace; i += kThreads)
            if ((i & step) == 0) order(kept[i], kept[i + step], (i & size) == 0);
        });
      }
    }
    team.each([&](int thread) {
      if (thread == 0 && shared.used > wanted) shared.used = wanted;
    });
  }

  static TT_BOTH Value worst() {
    constexpr Number kInfinity = std::numeric_limits<Number>::infinity();
    const Number least = Order::key(-kInfinity) < 0 ? -kInfinity : Number{0};
    return {least, kInfinity};
  }
  static TT_BOTH void order(Value& a, Value& b, bool best_first) {
    if (is_better<Order>(b, a) != best_first) return;
    const Value other = a;
    a = b;
    b = other;
  }
};
template <typename Element>
using TopReducer = BestReducer<ByValue, Element>;
template <typename Element>
using OutlierReducer = BestReducer<ByMagnitude, Element>;

}  // namespace tt::trace::device
