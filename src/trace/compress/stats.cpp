#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "src/trace/compress/cells.h"
#include "src/trace/compress/kinds.h"
#include "src/trace/device/reducers.h"
#include "src/trace/device/stats_join.h"
#include "src/trace/json_fields.h"
#include "tensor_tracer/trace/reductions.h"

namespace tt::trace {
namespace {

using nlohmann::json;

using device::BinRange;
using device::CellStats;
using device::Exponents;
using device::kColumnBlock;
using device::kHeadNumbers;
using device::kLineBlock;

// Histogram of plan entries. Without `range` the bins are the exponents of BinRange.
struct Bins {
  std::int64_t count = BinRange::kExponentBins;
  std::optional<std::pair<double, double>> range;

  BinRange on_device() const {
    const auto [low, high] = range.value_or(std::pair(0.0, 0.0));
    return {static_cast<int>(count), range.has_value(), low, high};
  }
};

// The statistics that do not depend on the order of the numbers.
struct Tally {
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();
  double zeros = 0, nans = 0, positive_infinities = 0, negative_infinities = 0;
  std::vector<double> bins;
};

static_assert(kLineBlock * kColumnBlock <= kMaxCounted);

// A Tally in the form that ranks send.
std::vector<double> to_numbers(const Tally& tally) {
  std::vector<double> numbers = {tally.least,
                                 tally.most,
                                 tally.zeros,
                                 tally.nans,
                                 tally.positive_infinities,
                                 tally.negative_infinities};
  numbers.insert(numbers.end(), tally.bins.begin(), tally.bins.end());
  return numbers;
}

template <typename Number>
class MomentsKernel {
 public:
  explicit MomentsKernel(const Bins& bins) : bins_(bins), range_(bins.on_device()) {
    tally_.bins.resize(static_cast<std::size_t>(bins.count));
  }

  void reduce(const Cell<Number>& cell, CellStats<Number>* out) {
    const Lines<Number> all{cell.data, cell.stride, cell.lines, cell.width};
    count_numbers(all);
    const double sum = sum_of_lines(all);
    *out = {};
    if (std::isfinite(sum)) {
      take_moments(all, sum, *out);
      take_norms(all, *out);
      return;
    }
    keep_finite(all);
    const auto count = static_cast<std::int64_t>(finite_.size());
    const Lines<Number> left{finite_.data(), count, 1, count};
    if (count > 0) take_moments(left, sum_of_lines(left), *out);
    take_norms({zeroed_.data(), cell.width, cell.lines, cell.width}, *out);
  }

  /// The tally of all cells so far.
  Tally tally() const {
    Tally tally = tally_;
    if (bins_.range) return tally;
    // Infinities and NaN have a separate exponent. Zeros share the exponent of the smallest
    // numbers.
    for (int e = 0; e + 1 < Exponents<Number>::kCount; ++e) {
      tally.bins[static_cast<std::size_t>(range_.template bin_of_exponent<Number>(e))] +=
          static_cast<double>(exponents_[static_cast<std::size_t>(e)]) - (e == 0 ? tally.zeros : 0);
    }
    return tally;
  }

  void finish(std::byte* tail) const {
    const std::vector<double> numbers = to_numbers(tally());
    std::memcpy(tail, numbers.data(), numbers.size() * sizeof(double));
  }

 private:
  template <typename Visit>
  static void for_each(const Lines<Number>& all, Visit&& visit) {
    for (std::int64_t line = 0; line < all.lines; ++line) {
      const Number* row = all.data + line * all.stride;
      for (std::int64_t i = 0; i < all.width; ++i) visit(row[i]);
    }
  }

  void take_moments(const Lines<Number>& all, double sum, CellStats<Number>& out) {
    take_extremes(all);
    const auto count = static_cast<double>(all.lines * all.width);
    const Powers powers = powers_of_lines(all, sum / count);
    out.moments = {count, sum / count, powers.second, powers.third, powers.fourth};
  }

  static void take_norms(const Lines<Number>& all, CellStats<Number>& out) {
    std::array<double, kLineBlock> lines;
    std::array<double, kColumnBlock> columns;
    lines.fill(-1);
    columns.fill(-1);
    squares_of_lines_and_columns(all, lines.data(), columns.data());
    const auto norm = [](double square) {
      return static_cast<Number>(square < 0 ? -1 : std::sqrt(square));
    };
    std::ranges::transform(lines, out.line_norms, norm);
    std::ranges::transform(columns, out.column_norms, norm);
  }

  void count_numbers(const Lines<Number>& all) {
    const std::uint64_t small_before = exponents_[0];
    count_exponents(all, exponents_.data());
    if (exponents_[0] > small_before)
      for_each(all, [&](Number x) { tally_.zeros += x == 0 ? 1 : 0; });
    if (bins_.range) {
      for_each(
          all,
          [&](Number x) {
            if (std::isfinite(x)) ++tally_.bins[static_cast<std::size_t>(range_.bin_of(x))];
          });
    }
  }

  void take_extremes(const Lines<Number>& all) {
    const Extremes<Number> extremes = extremes_of_lines(all);
    tally_.least = std::min(tally_.least, static_cast<double>(extremes.least));
    tally_.most = std::max(tally_.most, static_cast<double>(extremes.most));
  }

  void keep_finite(const Lines<Number>& all) {
    finite_.clear();
    zeroed_.clear();
    for_each(all, [&](Number x) {
      zeroed_.push_back(std::isfinite(x) ? x : 0);
      if (std::isfinite(x))
        finite_.push_back(x);
      else if (std::isnan(x))
        ++tally_.nans;
      else
        ++(x > 0 ? tally_.positive_infinities : tally_.negative_infinities);
    });
  }

  const Bins& bins_;
  const BinRange range_;
  Tally tally_;  // without the exponent histogram
  std::array<std::uint64_t, Exponents<Number>::kCount> exponents_ = {};
  std::vector<Number> finite_;
  std::vector<Number> zeroed_;  // the cell, with 0 for numbers that are not finite
};

template <typename Number_>
struct StatsMethod : CellMethod {
  using Number = Number_;
  using Value = CellStats<Number>;
  using Kernel = MomentsKernel<Number>;
  static constexpr std::string_view kCompressor = "stats";
  static constexpr bool kPerLine = false;
  Bins bins;
  std::int64_t size;  // of the capture

  std::int64_t values(std::int64_t /*width*/) const { return 1; }
  Kernel kernel(const CaptureFacts& /*facts*/) const { return Kernel(bins); }
  template <typename Element>
  device::Prepared<device::StatsReducer<Element>> device(const CaptureFacts&, at::Device) const {
    return {{bins.on_device()}};
  }
  std::size_t tail_bytes() const {
    return (6 + static_cast<std::size_t>(bins.count)) * sizeof(double);
  }

  device::StatsJoin<Number> device_join() const { return {.bins = bins.count, .size = size}; }

  // `line_blocks`: of all rows.
  void combine(const Kernel& kernel, std::span<Value> cells, std::int64_t line_blocks,
               const std::vector<const std::byte*>& tails, Number* out) const {
    // Of the cells that no rank holds whole, then of the ranks.
    std::vector<double> tally = to_numbers(kernel.tally());
    for (const std::byte* tail : tails) {
      const auto* numbers = reinterpret_cast<const double*>(tail);
      for (std::size_t i = 0; tail != nullptr && i < tally.size(); ++i)
        tally[i] = device::add_tail(static_cast<std::int64_t>(i), tally[i], numbers[i]);
    }
    const std::int64_t width = std::ssize(cells) / line_blocks;
    std::vector<device::BlockPlace> places;
    for (std::int64_t i = 0; i < std::max(width, line_blocks); ++i) places.push_back({0, i});
    device::StatsJoin<Number> join = device_join();
    join.cells = {.lines = places.data(),
                  .columns = places.data(),
                  .rows = 1,
                  .line_count = line_blocks,
                  .column_count = width,
                  .rank_count = 1};
    join.cells.ranks[0] = {cells.data(), reinterpret_cast<const std::byte*>(tally.data()),
                           line_blocks, width};
    std::vector<double> scratch(static_cast<std::size_t>(join.scratch_bytes()) / sizeof(double));
    join.scratch = reinterpret_cast<std::byte*>(scratch.data());
    join.out = out;
    device::join_on_host(join);
  }
};

// [2, 10 + bins] numbers of the whole capture.
std::shared_ptr<const Packing> stats_packing(const Bins& bins, const LogicalShape& shape,
                                             bool is_double) {
  return make_cell_packing<StatsMethod>(
      is_double, shape,
      make_cell_layout(shape, kLineBlock, even_boundaries(shape.features, kColumnBlock)),
      {2, kHeadNumbers + bins.count}, bins, shape.rows * shape.captured_lines() * shape.features);
}

json to_json(const Bins& bins) {
  json text = {{"kind", "stats"}, {"bins", bins.count}};
  if (bins.range) text["range"] = {bins.range->first, bins.range->second};
  return text;
}

}  // namespace

ParsedCompressor parse_stats(const json& text, const std::string& where,
                             const CompressorContext& /*context*/) {
  if (auto status = refuse_unknown_keys(text, where, {"kind", "bins", "range"}); !status)
    return status.error();
  Bins bins;
  if (text.contains("range")) {
    const json& range = text["range"];
    const bool is_pair = range.is_array() && range.size() == 2 && range[0].is_number() &&
                         range[1].is_number() && range[0].get<double>() < range[1].get<double>();
    if (!is_pair)
      return base::invalid_argument(where + ".range", "must be two numbers, the lower first");
    bins.range = {range[0].get<double>(), range[1].get<double>()};
    bins.count = 64;
    if (auto status = parse_integer(text, "bins", where, 1, BinRange::kMaxBins, bins.count);
        !status)
      return status.error();
  } else if (text.contains("bins") && text["bins"] != BinRange::kExponentBins) {
    return base::invalid_argument(where + ".bins",
                                  "without a range the bins are the 48 powers of two from 2^-32 on",
                                  "give a range such as [-4, 4]");
  }
  return parsed({.form = to_json(bins),
                 .code = protocol::RecordCompressor::kStats,
                 .packing = std::bind_front(stats_packing, bins),
                 .needs_full_precision = true});
}

}  // namespace tt::trace
