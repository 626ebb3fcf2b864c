#pragma once

#include <cstdint>

/// Sums whose order of additions depends only on the count of numbers: eight running sums, each
/// over every eighth number, then a tree. The bits are the same on every rank, at every address and
/// with every set of vector instructions. Thread: any.
namespace tt::trace {

/// Sum of n numbers; 0 if n is 0.
float fixed_order_sum(const float* values, std::int64_t n);
double fixed_order_sum(const double* values, std::int64_t n);

/// Sums of `count` neighbouring runs: sums[i] is the sum of widths[i] numbers. May read up to
/// `readable_end` (one past the last readable number), because that can be faster.
void fixed_order_sums(const float* values, const float* readable_end, const std::int32_t* widths,
                      std::int64_t count, float* sums);
void fixed_order_sums(const double* values, const double* readable_end, const std::int32_t* widths,
                      std::int64_t count, double* sums);

/// Sum of x[i] * y[i].
float fixed_order_dot(const float* x, const float* y, std::int64_t n);
double fixed_order_dot(const double* x, const double* y, std::int64_t n);

/// y[i] = e^x[i], for x from -87 to 0. In float with an error of at most 2 units in the last place;
/// a vector of eight numbers is computed at once, and each number by the same operations.
void exponentials(const float* x, std::int64_t n, float* y);
void exponentials(const double* x, std::int64_t n, double* y);

/// Lines of numbers in memory.
template <typename Number>
struct Lines {
  const Number* data = nullptr;
  std::int64_t stride = 0;
  std::int64_t lines = 0;
  std::int64_t width = 0;
};

/// Sum of all numbers, in double; the shape alone decides the order of additions.
double sum_of_lines(const Lines<float>& numbers);
double sum_of_lines(const Lines<double>& numbers);

/// Sums of (x - shift)², (x - shift)³ and (x - shift)⁴, as sum_of_lines.
struct Powers {
  double second = 0, third = 0, fourth = 0;
};
Powers powers_of_lines(const Lines<float>& numbers, double shift);
Powers powers_of_lines(const Lines<double>& numbers, double shift);

/// Sums of x²: lines[i] is that of line i, columns[k] that of column k.
void squares_of_lines_and_columns(const Lines<float>& numbers, double* lines, double* columns);
void squares_of_lines_and_columns(const Lines<double>& numbers, double* lines, double* columns);

/// counts[e] grows by the number of `numbers` with the exponent bits e: 8 bits of a float (counts
/// has 256 members), 11 of a double (2,048 members). At most kMaxCounted numbers.
inline constexpr std::int64_t kMaxCounted = 64 * 64;
void count_exponents(const Lines<float>& numbers, std::uint64_t* counts);
void count_exponents(const Lines<double>& numbers, std::uint64_t* counts);

/// The smallest and the largest number; NaNs are ignored.
template <typename Number>
struct Extremes {
  Number least, most;
};
Extremes<float> extremes_of_lines(const Lines<float>& numbers);
Extremes<double> extremes_of_lines(const Lines<double>& numbers);

/// Returns the index of the first number outside [low, high], or n if all numbers are inside. A NaN
/// counts as outside.
std::int64_t first_outside(const float* values, std::int64_t n, float low, float high);
std::int64_t first_outside(const double* values, std::int64_t n, double low, double high);

}  // namespace tt::trace
