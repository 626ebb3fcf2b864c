#include "tensor_tracer/data/blend_order.h"

#include <algorithm>
#include <numeric>

#include "tensor_tracer/base/check.h"

namespace tt::data {
namespace {

constexpr std::int64_t kKeptEvery = 4096;

}  // namespace

BlendOrder::BlendOrder(const std::vector<double>& weights)
    : weights_(weights), now_{0, std::vector<std::int64_t>(weights.size())}, kept_{now_} {
  TT_CHECK(!weights.empty(), "a blend of nothing");
  const double sum = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  for (double& weight : weights_) weight /= sum;
}

std::size_t BlendOrder::next_part() const {
  const auto samples = static_cast<double>(std::max<std::int64_t>(now_.n, 1));
  std::size_t best = 0;
  double largest = 0;
  for (std::size_t part = 0; part < weights_.size(); ++part) {
    const double missing = weights_[part] * samples - static_cast<double>(now_.taken[part]);
    if (part > 0 && missing <= largest) continue;
    best = part;
    largest = missing;
  }
  return best;
}

BlendOrder::Pick BlendOrder::at(std::int64_t n) {
  if (weights_.size() == 1) return {0, n};
  if (n < now_.n)
    now_ = kept_[std::min(static_cast<std::size_t>(n / kKeptEvery), kept_.size() - 1)];
  while (now_.n < n) {
    ++now_.taken[next_part()];
    ++now_.n;
    if (now_.n == std::ssize(kept_) * kKeptEvery) kept_.push_back(now_);
  }
  const std::size_t part = next_part();
  return {part, now_.taken[part]};
}

}  // namespace tt::data
