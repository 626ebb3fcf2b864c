#pragma once

#include <cstdint>

/// Sums whose order of additions depends on the number of addends alone: eight running sums over
/// every eighth number, then a tree. The same bits wherever the numbers lie and whichever rank
/// adds them. Thread: any.
namespace tt::trace {

/// Sum of n numbers, 0 for none.
float fixed_order_sum(const float* values, std::int64_t n);
double fixed_order_sum(const double* values, std::int64_t n);

/// Sum of x[i] * y[i].
float fixed_order_dot(const float* x, const float* y, std::int64_t n);
double fixed_order_dot(const double* x, const double* y, std::int64_t n);

/// The largest |x|; NaN if there is one.
float absolute_max(const float* values, std::int64_t n);
double absolute_max(const double* values, std::int64_t n);

}  // namespace tt::trace
