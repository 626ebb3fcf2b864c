#include "tensor_tracer/vectors/separation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tensor_tracer/base/check.h"

namespace tt::vectors {
namespace {

double mean_of(const std::vector<double>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
}

double sum_of_squares(const std::vector<double>& numbers, double mean) {
  double sum = 0;
  for (const double number : numbers) sum += (number - mean) * (number - mean);
  return sum;
}

}  // namespace

std::optional<double> area_under_curve(const std::vector<double>& positive,
                                       const std::vector<double>& negative) {
  if (positive.empty() || negative.empty()) return std::nullopt;
  std::vector<double> sorted = negative;
  std::ranges::sort(sorted);
  double won = 0;
  for (const double number : positive) {
    const auto [first, last] = std::equal_range(sorted.begin(), sorted.end(), number);
    won += static_cast<double>(first - sorted.begin()) + 0.5 * static_cast<double>(last - first);
  }
  return won / (static_cast<double>(positive.size()) * static_cast<double>(negative.size()));
}

std::optional<double> share_above(const std::vector<double>& positive,
                                  const std::vector<double>& negative) {
  TT_CHECK_EQ(positive.size(), negative.size());
  if (positive.empty()) return std::nullopt;
  std::size_t above = 0;
  for (std::size_t i = 0; i < positive.size(); ++i) above += positive[i] > negative[i] ? 1U : 0U;
  return static_cast<double>(above) / static_cast<double>(positive.size());
}

std::optional<double> effect_size(const std::vector<double>& positive,
                                  const std::vector<double>& negative) {
  if (positive.size() < 2 || negative.size() < 2) return std::nullopt;
  const double high = mean_of(positive), low = mean_of(negative);
  const double squares = sum_of_squares(positive, high) + sum_of_squares(negative, low);
  if (!(squares > 0)) return std::nullopt;
  return (high - low) /
         std::sqrt(squares / static_cast<double>(positive.size() + negative.size() - 2));
}

}  // namespace tt::vectors
