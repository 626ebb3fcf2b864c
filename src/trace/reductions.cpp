#include "tensor_tracer/trace/reductions.h"

#include <cmath>

namespace tt::trace {
namespace {

constexpr std::int64_t kLanes = 8;

// Sum of term(i) for i in [0, n).
template <typename Number, typename Term>
Number sum_of(std::int64_t n, Term&& term) {
  Number lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  }
  for (std::int64_t lane = 0; i < n; ++i, ++lane) lanes[lane] += term(i);
  const Number low = (lanes[0] + lanes[4]) + (lanes[2] + lanes[6]);
  const Number high = (lanes[1] + lanes[5]) + (lanes[3] + lanes[7]);
  return low + high;
}

template <typename Number>
Number absolute_max_of(const Number* values, std::int64_t n) {
  Number most = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const Number size = std::abs(values[i]);
    if (!(size <= most)) most = std::isnan(most) ? most : size;
  }
  return most;
}

}  // namespace

float fixed_order_sum(const float* values, std::int64_t n) {
  return sum_of<float>(n, [values](std::int64_t i) { return values[i]; });
}

double fixed_order_sum(const double* values, std::int64_t n) {
  return sum_of<double>(n, [values](std::int64_t i) { return values[i]; });
}

float fixed_order_dot(const float* x, const float* y, std::int64_t n) {
  return sum_of<float>(n, [x, y](std::int64_t i) { return x[i] * y[i]; });
}

double fixed_order_dot(const double* x, const double* y, std::int64_t n) {
  return sum_of<double>(n, [x, y](std::int64_t i) { return x[i] * y[i]; });
}

float absolute_max(const float* values, std::int64_t n) { return absolute_max_of(values, n); }
double absolute_max(const double* values, std::int64_t n) { return absolute_max_of(values, n); }

}  // namespace tt::trace
