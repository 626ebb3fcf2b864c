#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "src/trace/compress/cells.h"
#include "src/trace/compress/kinds.h"
#include "src/trace/json_fields.h"

namespace tt::trace {
namespace {

using nlohmann::json;

// Moments are taken cell by cell, so many lines by so many columns from logical 0 on, then merged
// in logical order: the order of additions is that of the whole tensor on every mesh.
constexpr std::int64_t kLineBlock = 16;
constexpr std::int64_t kColumnBlock = 64;
constexpr std::int64_t kLanes = 8;

constexpr std::int64_t kHeadNumbers = 10;  // before the histogram
constexpr std::int64_t kMaxBins = 1024;
// Without a range: magnitudes by powers of two, floor(log2 |x|) from -32 to 15, ends included.
constexpr int kLowestExponent = -32;
constexpr std::int64_t kExponentBins = 48;

// Histogram of plan entries. Without `range` bins are the exponents above.
struct Bins {
  std::int64_t count = kExponentBins;
  std::optional<std::pair<double, double>> range;
};

// Moments of the finite numbers of a cell: count, mean, sum of squared distances from it.
struct Moments {
  double count = 0;
  double mean = 0;
  double m2 = 0;

  // Chan, Golub, LeVeque 1979.
  void merge(const Moments& other) {
    if (other.count == 0) return;
    const double total = count + other.count;
    const double delta = other.mean - mean;
    mean += delta * (other.count / total);
    m2 += other.m2 + delta * delta * (count * (other.count / total));
    count = total;
  }
};

// What does not depend on the order in which numbers come.
struct Tally {
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();
  double zeros = 0, nans = 0, positive_infinities = 0, negative_infinities = 0;
  std::vector<double> bins;
};

template <typename Number>
double lanes_sum(const Cell<Number>& cell, double shift, bool squares) {
  double lanes[kLanes] = {};
  for (std::int64_t line = 0; line < cell.lines; ++line) {
    const Number* row = cell.data + line * cell.stride;
    for (std::int64_t i = 0; i + kLanes <= cell.width; i += kLanes) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        const double x = static_cast<double>(row[i + lane]) - shift;
        lanes[lane] += squares ? x * x : x;
      }
    }
    for (std::int64_t i = cell.width / kLanes * kLanes, lane = 0; i < cell.width; ++i, ++lane) {
      const double x = static_cast<double>(row[i]) - shift;
      lanes[lane] += squares ? x * x : x;
    }
  }
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
         ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

// floor(log2 |x|) of a finite number that is not 0.
inline int exponent_of(float x) {
  const int exponent = static_cast<int>(std::bit_cast<std::uint32_t>(x) >> 23 & 0xff) - 127;
  return exponent;  // -127 stands for all that are smaller than the smallest normal number
}
inline int exponent_of(double x) {
  return static_cast<int>(std::bit_cast<std::uint64_t>(x) >> 52 & 0x7ff) - 1023;
}

template <typename Number_>
class MomentsKernel {
 public:
  using Number = Number_;
  using Value = Moments;
  static constexpr bool kPerLine = false;

  explicit MomentsKernel(const Bins& bins) : bins_(bins) {
    tally.bins.resize(static_cast<std::size_t>(bins.count));
  }
  std::int64_t values(std::int64_t /*width*/) const { return 1; }

  void reduce(const Cell<Number>& cell, Value* out) {
    count_numbers(cell);
    const auto size = static_cast<double>(cell.lines * cell.width);
    const double sum = lanes_sum(cell, 0.0, false);
    if (std::isfinite(sum)) {
      const double mean = sum / size;
      *out = {size, mean, lanes_sum(cell, mean, true)};
      return;
    }
    finite_.clear();
    for_each(cell, [&](Number x) {
      if (std::isfinite(x)) finite_.push_back(x);
    });
    const auto count = static_cast<std::int64_t>(finite_.size());
    if (count == 0) {
      *out = {};
      return;
    }
    const Cell<Number> left{finite_.data(), count, 1, count, 0};
    const double mean = lanes_sum(left, 0.0, false) / static_cast<double>(count);
    *out = {static_cast<double>(count), mean, lanes_sum(left, mean, true)};
  }

  Tally tally;

 private:
  template <typename Visit>
  static void for_each(const Cell<Number>& cell, Visit&& visit) {
    for (std::int64_t line = 0; line < cell.lines; ++line) {
      const Number* row = cell.data + line * cell.stride;
      for (std::int64_t i = 0; i < cell.width; ++i) visit(row[i]);
    }
  }

  void count_numbers(const Cell<Number>& cell) {
    Number least = std::numeric_limits<Number>::infinity();
    Number most = -std::numeric_limits<Number>::infinity();
    for_each(cell, [&](Number x) {
      if (!std::isfinite(x)) [[unlikely]] {
        ++(std::isnan(x) ? tally.nans
                         : (x > 0 ? tally.positive_infinities : tally.negative_infinities));
        return;
      }
      least = std::min(least, x);
      most = std::max(most, x);
      if (x == 0) {
        ++tally.zeros;
        if (!bins_.range) return;
      }
      ++tally.bins[bin_of(x)];
    });
    tally.least = std::min(tally.least, static_cast<double>(least));
    tally.most = std::max(tally.most, static_cast<double>(most));
  }

  std::size_t bin_of(Number x) const {
    const std::int64_t last = bins_.count - 1;
    if (!bins_.range) {
      return static_cast<std::size_t>(
          std::clamp<std::int64_t>(exponent_of(x) - kLowestExponent, 0, last));
    }
    const auto [low, high] = *bins_.range;
    const double at = (static_cast<double>(x) - low) / (high - low) * static_cast<double>(bins_.count);
    return static_cast<std::size_t>(std::clamp(at, 0.0, static_cast<double>(last)));
  }

  const Bins& bins_;
  std::vector<Number> finite_;
};

// The numbers of a Tally as they travel.
std::vector<double> to_numbers(const Tally& tally) {
  std::vector<double> numbers = {tally.least, tally.most,
                                 tally.zeros, tally.nans,
                                 tally.positive_infinities, tally.negative_infinities};
  numbers.insert(numbers.end(), tally.bins.begin(), tally.bins.end());
  return numbers;
}

void add_numbers(Tally& tally, const double* numbers) {
  tally.least = std::min(tally.least, numbers[0]);
  tally.most = std::max(tally.most, numbers[1]);
  tally.zeros += numbers[2];
  tally.nans += numbers[3];
  tally.positive_infinities += numbers[4];
  tally.negative_infinities += numbers[5];
  for (std::size_t i = 0; i < tally.bins.size(); ++i) tally.bins[i] += numbers[6 + i];
}

// [10 + bins] numbers of the whole capture.
template <typename Number>
class StatsPacking : public CellPacking<MomentsKernel<Number>> {
 public:
  StatsPacking(const LogicalShape& shape, const Bins& bins)
      : CellPacking<Kernel>(
            make_cell_layout(shape, kLineBlock, even_boundaries(shape.features, kColumnBlock)),
            {kHeadNumbers + bins.count}, Kernel(bins)),
        bins_(bins),
        size_(static_cast<double>(shape.rows * shape.wanted_lines() * shape.features)) {}

  std::size_t part_bytes(std::size_t rank) const override {
    const std::size_t cells = cell_bytes(rank);
    return cells == 0 ? 0 : cells + tally_bytes();
  }
  void pack(int /*layer*/, std::size_t rank, const LocalTensor& local,
            std::byte* part) const override {
    Kernel kernel(bins_);
    this->pack_with(kernel, rank, local, part);
    const std::vector<double> numbers = to_numbers(kernel.tally);
    std::memcpy(part + cell_bytes(rank), numbers.data(), tally_bytes());
  }
  void join(int /*layer*/, const std::vector<const std::byte*>& parts,
            std::byte* out) const override {
    Kernel kernel(bins_);  // its tally gets the cells that no rank held whole
    Moments all, cell;
    this->join_with(kernel, parts, [&](const CellPlace& /*at*/) {
      all.merge(cell);
      return &cell;
    });
    all.merge(cell);
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      if (parts[rank] == nullptr) continue;
      add_numbers(kernel.tally, reinterpret_cast<const double*>(parts[rank] + cell_bytes(rank)));
    }
    write(all, kernel.tally, reinterpret_cast<Number*>(out));
  }

 private:
  using Kernel = MomentsKernel<Number>;

  std::size_t cell_bytes(std::size_t rank) const {
    return CellPacking<Kernel>::part_bytes(rank);
  }
  std::size_t tally_bytes() const {
    return (6 + static_cast<std::size_t>(bins_.count)) * sizeof(double);
  }

  void write(const Moments& all, const Tally& tally, Number* out) const {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const bool any = all.count > 0;
    const double deviation = all.count > 1 ? std::sqrt(all.m2 / (all.count - 1)) : nan;
    const double norm = std::sqrt(all.m2 + all.count * all.mean * all.mean);
    for (const double number :
         {size_, any ? all.mean : nan, deviation, any ? tally.least : nan, any ? tally.most : nan,
          norm, tally.zeros / size_, tally.nans, tally.positive_infinities,
          tally.negative_infinities}) {
      *out++ = static_cast<Number>(number);
    }
    std::ranges::transform(tally.bins, out, [](double n) { return static_cast<Number>(n); });
  }

  const Bins bins_;
  const double size_;
};

class StatsCompressor : public Compressor {
 public:
  explicit StatsCompressor(const Bins& bins) : bins_(bins) {}
  json to_json() const override {
    json text = {{"kind", "stats"}, {"bins", bins_.count}};
    if (bins_.range) text["range"] = {bins_.range->first, bins_.range->second};
    return text;
  }
  protocol::RecordCompressor code() const override { return protocol::RecordCompressor::kStats; }
  bool needs_full_precision() const override { return true; }
  std::shared_ptr<const Packing> packing(const LogicalShape& shape, bool is_double) const override {
    if (is_double) return std::make_shared<StatsPacking<double>>(shape, bins_);
    return std::make_shared<StatsPacking<float>>(shape, bins_);
  }

 private:
  const Bins bins_;
};

}  // namespace

ParsedCompressor parse_stats(const json& text, const std::string& where,
                             const CompressorContext& /*context*/) {
  if (auto status = refuse_unknown_keys(text, where, {"kind", "bins", "range"}); !status) {
    return status.error();
  }
  Bins bins;
  if (text.contains("range")) {
    const json& range = text["range"];
    const bool is_pair = range.is_array() && range.size() == 2 && range[0].is_number() &&
                         range[1].is_number() && range[0].get<double>() < range[1].get<double>();
    if (!is_pair) return wrong(where + ".range", "must be two numbers, the lower first");
    bins.range = {range[0].get<double>(), range[1].get<double>()};
    bins.count = 64;
    if (auto status = parse_integer(text, "bins", where, 1, kMaxBins, bins.count); !status) {
      return status.error();
    }
  } else if (text.contains("bins") && text["bins"] != kExponentBins) {
    return wrong(where + ".bins", "without a range the bins are the 48 powers of two from 2^-32 on",
                 "give a range such as [-4, 4]");
  }
  return made<StatsCompressor>(bins);
}

}  // namespace tt::trace
