#include "src/trace/compress/predictions.h"

#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "src/trace/compress/best_columns.h"
#include "tensor_tracer/trace/reductions.h"

namespace tt::trace {
namespace {

// Logical columns per partial sum; independent of the borders between ranks.
constexpr std::int64_t kBlock = 256;
constexpr std::int64_t kNumbers = 4;  // of a line

using device::SoftmaxSums;

template <typename Number>
class SoftmaxKernel {
 public:
  using Sums = SoftmaxSums<Number>;
  explicit SoftmaxKernel(std::span<const std::int64_t> targets) : targets_(targets) {}

  std::int64_t target_of(std::int64_t line) const {
    return targets_.empty() ? -1 : targets_[static_cast<std::size_t>(line)];
  }

  void reduce(const Cell<Number>& cell, Sums* out) {
    *out = sums_of(cell);
    const std::int64_t column = target_of(cell.first_line) - cell.first_column;
    if (column >= 0 && column < cell.width) out->target = cell.data[column];
  }

 private:
  Sums sums_of(const Cell<Number>& cell) {
    constexpr Number kNan = std::numeric_limits<Number>::quiet_NaN();
    constexpr Number kInfinity = std::numeric_limits<Number>::infinity();
    const bool has_nan = first_outside(cell.data, cell.width, -kInfinity, kInfinity) < cell.width;
    if (has_nan) return {kNan, kNan, kNan};
    const Number largest =
        extremes_of_lines(Lines<Number>{cell.data, cell.stride, 1, cell.width}).most;
    if (std::isinf(largest)) return {largest, 0, 0};
    // A smaller difference has no weight.
    constexpr Number kLeast = -87;
    for (std::int64_t i = 0; i < cell.width; ++i) {
      const Number away = cell.data[i] - largest;
      away_[static_cast<std::size_t>(i)] = away < kLeast ? kLeast : away;
    }
    exponentials(away_.data(), cell.width, weights_.data());
    return {largest, fixed_order_sum(weights_.data(), cell.width),
            fixed_order_dot(weights_.data(), away_.data(), cell.width)};
  }

  const std::span<const std::int64_t> targets_;
  std::array<Number, kBlock> away_ = {}, weights_ = {};
};

template <typename Number_>
struct SoftmaxMethod : CellMethod {
  using Number = Number_;
  using Value = SoftmaxSums<Number_>;
  using Kernel = SoftmaxKernel<Number_>;
  static constexpr std::string_view kCompressor = "topk";
  std::int64_t k;
  std::int64_t features;

  std::int64_t values(std::int64_t /*width*/) const { return 1; }
  Kernel kernel(const CaptureFacts& facts) const { return Kernel(facts.targets); }
  template <typename Element>
  device::Prepared<device::SoftmaxReducer<Element>> device(const CaptureFacts& facts,
                                                           at::Device on) const {
    if (facts.targets.empty()) return {};
    const at::Tensor targets =
        at::tensor(at::IntArrayRef(facts.targets.data(), facts.targets.size()),
                   at::device(at::kCPU).dtype(at::kLong))
            .to(on);
    return {{{}, targets.const_data_ptr<std::int64_t>()}, targets};
  }

  void combine(const Kernel& kernel, std::span<Value> cells, std::int64_t lines,
               const std::vector<const std::byte*>& /*tails*/, Number* out) const {
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    std::fill_n(out, (kNumbers + k - 1) / k * k * lines, static_cast<Number>(kNan));
    const std::size_t of_line = cells.size() / static_cast<std::size_t>(lines);
    for (std::int64_t line = 0; line < lines; ++line) {
      const std::span<Value> blocks =
          cells.subspan(static_cast<std::size_t>(line) * of_line, of_line);
      const auto [largest, log_sum, entropy] = softmax_of(blocks);
      const std::int64_t target = kernel.target_of(line);
      const bool is_known = target >= 0 && target < features;
      const double score =
          is_known ? double{blocks[static_cast<std::size_t>(target / kBlock)].target} : kNan;
      const double numbers[kNumbers] = {largest + log_sum, entropy, (largest - score) + log_sum,
                                        is_known ? static_cast<double>(target) : -1.0};
      for (std::int64_t j = 0; j < kNumbers; ++j)
        out[(j / k * lines + line) * k + j % k] = static_cast<Number>(numbers[j]);
    }
  }

  struct Softmax {
    double largest, log_sum, entropy;  // log_sum: of the exponentials of x - largest
  };

  static Softmax softmax_of(std::span<const Value> blocks) {
    double largest = blocks.front().largest;
    for (const Value& block : blocks) {
      if (!(double{block.largest} <= largest)) largest = block.largest;
      if (std::isnan(largest)) return {largest, largest, largest};
    }
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    if (std::isinf(largest)) return {largest, 0, kNan};
    double sum = 0, weighted = 0;
    for (const Value& block : blocks) {
      if (std::isinf(block.largest)) continue;  // -Infinity: no weight
      const double away = double{block.largest} - largest;
      const double share = std::exp(away);
      sum += share * block.exponentials;
      weighted += share * (block.weighted + away * block.exponentials);
    }
    return {largest, std::log(sum), std::log(sum) - weighted / sum};
  }
};

// Two packings behind one another.
class PredictionPacking : public Packing {
 public:
  PredictionPacking(std::shared_ptr<const Packing> best, std::shared_ptr<const Packing> sums,
                    std::size_t number_bytes)
      : best_(std::move(best)),
        sums_(std::move(sums)),
        best_bytes_(number_bytes),
        kernels_("topk", {{at::kCPU, kernel_on(at::kCPU)}, {at::kCUDA, kernel_on(at::kCUDA)}}) {
    for (const std::int64_t size : best_->shape()) best_bytes_ *= static_cast<std::size_t>(size);
  }
  PredictionPacking(const PredictionPacking&) = delete;  // the kernels refer to this object

  std::size_t part_bytes(std::size_t rank) const override {
    return best_->part_bytes(rank) + sums_->part_bytes(rank);
  }
  std::vector<std::int64_t> shape() const override {
    std::vector<std::int64_t> shape = best_->shape();
    shape.front() += sums_->shape().front();
    return shape;
  }
  const PackKernels& kernels() const override { return kernels_; }

  void join(const CaptureFacts& facts, const std::vector<const std::byte*>& parts,
            std::byte* out) const override {
    best_->join(facts, parts, out);
    std::vector<const std::byte*> behind = parts;
    for (std::size_t rank = 0; rank < behind.size(); ++rank)
      if (behind[rank] != nullptr) behind[rank] += best_->part_bytes(rank);
    sums_->join(facts, behind, out + best_bytes_);
  }

 private:
  // Fails where the two fail.
  PackKernel kernel_on(at::DeviceType device) {
    return [this, device](const CaptureFacts& facts, std::size_t rank, const at::Tensor& local,
                          std::span<std::byte> part) {
      const std::size_t first = best_->part_bytes(rank);
      best_->kernels().on(device)(facts, rank, local, part.first(first));
      sums_->kernels().on(device)(facts, rank, local, part.subspan(first));
    };
  }

  const std::shared_ptr<const Packing> best_, sums_;
  std::size_t best_bytes_;  // of the best columns in the record
  const PackKernels kernels_;
};

}  // namespace

std::shared_ptr<const Packing> make_prediction_packing(std::int64_t k, const LogicalShape& shape,
                                                       bool is_double) {
  std::vector<std::int64_t> planes = shape.result_shape(k);
  planes.insert(planes.begin(), (kNumbers + k - 1) / k);
  auto sums = make_cell_packing<SoftmaxMethod>(
      is_double, shape, make_cell_layout(shape, 1, even_boundaries(shape.features, kBlock)),
      std::move(planes), k, shape.features);
  return std::make_shared<PredictionPacking>(best_packing<device::ByValue>(k, shape, is_double),
                                             std::move(sums),
                                             is_double ? sizeof(double) : sizeof(float));
}

}  // namespace tt::trace
