#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "src/trace/device/join.h"
#include "src/trace/device/stats.h"

/// The join of "stats". Sums have two levels, so that teams work side by side: first over the cells
/// of each block of lines and of each block of columns, then over the blocks; both in logical
/// order.
namespace tt::trace::device {

/// Pébay 2008, Sandia report SAND2008-6212, equations 2.1 to 2.3.
TT_BOTH inline void add_to(Moments& all, const Moments& other) {
  if (other.count == 0) return;
  if (all.count == 0) {
    all = other;
    return;
  }
  const double total = all.count + other.count;
  const double a = all.count / total, b = other.count / total;
  const double delta = other.mean - all.mean;
  const double square = delta * delta;
  all.m4 += other.m4 + square * square * (all.count * b) * (a * a - a * b + b * b) +
            6 * square * (a * a * other.m2 + b * b * all.m2) +
            4 * delta * (a * other.m3 - b * all.m3);
  all.m3 += other.m3 + delta * square * (all.count * b) * (a - b) +
            3 * delta * (a * other.m2 - b * all.m2);
  all.m2 += other.m2 + square * (all.count * b);
  all.mean += delta * b;
  all.count = total;
}

/// The least, the mean and the largest of several norms.
struct NormRange {
  double least = std::numeric_limits<double>::infinity();
  double sum = 0, most = 0, count = 0;
};
TT_BOTH inline void add_to(NormRange& all, const NormRange& other) {
  all.least = least_of(all.least, other.least);
  all.most = other.most > all.most ? other.most : all.most;
  all.sum += other.sum;
  all.count += other.count;
}

/// Adds a number of one rank's tail to that of the ranks before it.
TT_BOTH inline double add_tail(std::int64_t number, double all, double one) {
  if (number == kLeast) return least_of(all, one);
  if (number == kMost) return one > all ? one : all;
  return all + one;
}

/// Numbers of the first row of the record before the histogram.
constexpr std::int64_t kHeadNumbers = 10;

template <typename Number_>
struct StatsJoin {
  using Number = Number_;
  using Value = CellStats<Number>;
  static constexpr int kThreads = 64;
  static constexpr int kAhead = 16;  // cells whose loads do not wait for an addition
  struct Shared {
    double squares[kThreads];
    double tail[kBins];
    alignas(Moments) std::byte items[kThreads * sizeof(Moments)];
  };
  static_assert(kThreads == kLineBlock && kThreads == kColumnBlock);
  static_assert(sizeof(NormRange) <= sizeof(Moments));

  std::int64_t bins = 0;
  std::int64_t size = 0;  // of the capture
  GatheredCells<Value> cells = {};
  std::byte* scratch = nullptr;
  Number* out = nullptr;

  std::int64_t scratch_bytes() const {
    return cells.units() * static_cast<std::int64_t>(sizeof(Moments)) +
           teams() * static_cast<std::int64_t>(sizeof(NormRange));
  }

  TT_BOTH std::int64_t teams() const { return cells.units() + cells.column_count; }

  template <typename Team>
  TT_BOTH void join(Team& team, Shared& shared, std::int64_t index) const {
    if (index < cells.units())
      join_lines(team, shared, index);
    else
      join_columns(team, shared, index - cells.units());
  }

  template <typename Team>
  TT_BOTH void finish(Team& team, Shared& shared) const {
    Moments all;
    NormRange of_lines, of_columns;
    const Moments* const moments = all_moments();
    const NormRange* const norms = all_norms();
    fold(
        team, shared, cells.units(), all, [&](std::int64_t i) { return moments[i]; });
    fold(
        team, shared, cells.units(), of_lines, [&](std::int64_t i) { return norms[i]; });
    fold(
        team, shared, cells.column_count, of_columns,
        [&](std::int64_t i) { return norms[cells.units() + i]; });
    team.each([&](int thread) { write_counts(shared, thread); });
    team.each([&](int thread) {
      if (thread > 0) return;
      write_head(all, shared.tail);
      write_norms(all, of_lines, of_columns);
    });
  }

 private:
  // Of each unit.
  TT_BOTH Moments* all_moments() const { return reinterpret_cast<Moments*>(scratch); }
  // Of each unit, then of each block of columns.
  TT_BOTH NormRange* all_norms() const {
    return reinterpret_cast<NormRange*>(all_moments() + cells.units());
  }

  template <typename Team>
  TT_BOTH void join_lines(Team& team, Shared& shared, std::int64_t unit) const {
    Moments moments;
    add_norms(
        team, shared, cells.column_count, all_norms()[unit],
        [&](std::int64_t i) { return cells.at(unit, i).line_norms; });
    fold(
        team, shared, cells.column_count, moments,
        [&](std::int64_t i) { return cells.at(unit, i).moments; });
    team.each([&](int thread) {
      if (thread == 0) all_moments()[unit] = moments;
    });
  }

  template <typename Team>
  TT_BOTH void join_columns(Team& team, Shared& shared, std::int64_t column) const {
    add_norms(
        team, shared, cells.units(), all_norms()[cells.units() + column],
        [&](std::int64_t i) { return cells.at(i, column).column_norms; });
  }

  // The norms of the lines or columns of a block, from the norms of their parts in `count` cells.
  // norms_of(i): those of the i-th cell.
  template <typename Team, typename NormsOf>
  static TT_BOTH void add_norms(Team& team, Shared& shared, std::int64_t count, NormRange& range,
                                const NormsOf& norms_of) {
    team.each([&](int thread) { shared.squares[thread] = -1; });
    for (std::int64_t first = 0; first < count; first += kAhead) {
      const std::int64_t used = least_of(count - first, std::int64_t{kAhead});
      const Number* parts[kAhead];
      for (int i = 0; i < kAhead; ++i) parts[i] = norms_of(least_of(first + i, count - 1));
      team.each([&](int thread) {
        Number norms[kAhead];
        for (int i = 0; i < kAhead; ++i) norms[i] = i < used ? parts[i][thread] : Number{-1};
        double square = shared.squares[thread];
        for (int i = 0; i < kAhead; ++i) {
          const double norm = norms[i];
          square = norm < 0 ? square : (square < 0 ? 0 : square) + norm * norm;
        }
        shared.squares[thread] = square;
      });
    }
    team.each([&](int thread) {
      const double square = shared.squares[thread];
      shared.squares[thread] = square < 0 ? -1 : sqrt(square);
    });
    team.each([&](int thread) {
      if (thread > 0) return;
      NormRange all;
      for (const double norm : shared.squares)
        if (norm >= 0) add_to(all, {norm, norm, norm, 1});
      range = all;
    });
  }

  // Adds items in their order to `all`, which only the first thread may read: all threads load, one
  // adds.
  template <typename Team, typename Item, typename Load>
  static TT_BOTH void fold(Team& team, Shared& shared, std::int64_t count, Item& all,
                           const Load& load) {
    Item* const items = reinterpret_cast<Item*>(shared.items);
    for (std::int64_t first = 0; first < count; first += kThreads) {
      const std::int64_t loaded = least_of(count - first, std::int64_t{kThreads});
      team.each([&](int thread) {
        if (thread < loaded) items[thread] = load(first + thread);
      });
      team.each([&](int thread) {
        for (std::int64_t i = 0; thread == 0 && i < loaded; ++i) add_to(all, items[i]);
      });
    }
  }

  // The histogram, and shared.tail.
  TT_BOTH void write_counts(Shared& shared, int thread) const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    for (std::int64_t i = thread; i < kBins + bins; i += kThreads) {
      double all = i == kLeast ? kInfinity : (i == kMost ? -kInfinity : 0);
      for (std::int64_t rank = 0; rank < cells.rank_count; ++rank) {
        const auto* tail = reinterpret_cast<const double*>(cells.ranks[rank].tail);
        if (tail != nullptr) all = add_tail(i, all, tail[i]);
      }
      if (i < kBins)
        shared.tail[i] = all;
      else
        out[kHeadNumbers + i - kBins] = number_of(all);
    }
  }

  // Devices differ in the bits of a NaN that they compute.
  static TT_BOTH Number number_of(double x) {
    return is_nan(x) ? std::numeric_limits<Number>::quiet_NaN() : static_cast<Number>(x);
  }
  static TT_BOTH double norm_of(const Moments& all) {
    return sqrt(all.m2 + all.count * all.mean * all.mean);
  }

  TT_BOTH void write_head(const Moments& all, const double* tail) const {
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    const auto numbers = static_cast<double>(size);
    const bool any = all.count > 0;
    const double head[kHeadNumbers] = {numbers,
                                       any ? all.mean : kNan,
                                       all.count > 1 ? sqrt(all.m2 / (all.count - 1)) : kNan,
                                       any ? tail[kLeast] : kNan,
                                       any ? tail[kMost] : kNan,
                                       norm_of(all),
                                       tail[kZeros] / numbers,
                                       tail[kNans],
                                       tail[kPositiveInfinities],
                                       tail[kNegativeInfinities]};
    for (std::int64_t i = 0; i < kHeadNumbers; ++i) out[i] = number_of(head[i]);
  }

  // The second row of the record.
  TT_BOTH void write_norms(const Moments& all, const NormRange& of_lines,
                           const NormRange& of_columns) const {
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    constexpr std::int64_t kNumbers = 8;
    const double row[kNumbers] = {all.m2 > 0 ? all.count * all.m4 / (all.m2 * all.m2) : kNan,
                                  all.count > 0 ? norm_of(all) / sqrt(all.count) : kNan,
                                  of_lines.least,
                                  of_lines.sum / of_lines.count,
                                  of_lines.most,
                                  of_columns.least,
                                  of_columns.sum / of_columns.count,
                                  of_columns.most};
    const std::int64_t width = kHeadNumbers + bins;
    for (std::int64_t i = 0; i < width; ++i)
      out[width + i] = number_of(i < kNumbers ? row[i] : kNan);
  }
};

}  // namespace tt::trace::device
