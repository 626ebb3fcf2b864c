// Sums and counts over lines of numbers, against loops without vectors.
#include "tensor_tracer/trace/reductions.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace tt::trace {
namespace {

constexpr std::int64_t kStride = 70;

// Lines of normal numbers; between two lines lie numbers that do not count.
std::vector<float> normal_lines(std::int64_t lines) {
  std::mt19937 random(1);
  std::normal_distribution<float> draw;
  std::vector<float> numbers(static_cast<std::size_t>(lines * kStride));
  for (float& number : numbers) number = draw(random);
  return numbers;
}

template <typename Visit>
void for_each(const Lines<float>& numbers, Visit&& visit) {
  for (std::int64_t line = 0; line < numbers.lines; ++line)
    for (std::int64_t i = 0; i < numbers.width; ++i)
      visit(line, i, numbers.data[line * numbers.stride + i]);
}

void expect_exponents(const Lines<float>& numbers) {
  std::vector<std::uint64_t> counts(256, 3), expected(256, 3);
  count_exponents(numbers, counts.data());
  for_each(numbers,
           [&](auto, auto, float x) { ++expected[std::bit_cast<std::uint32_t>(x) >> 23 & 0xff]; });
  EXPECT_EQ(counts, expected) << numbers.lines << " x " << numbers.width;
}

TEST(Reductions, ExponentsAreCounted) {
  std::vector<float> numbers = normal_lines(64);
  const auto all_shapes = [&] {
    for (const std::int64_t lines : {0, 1, 3, 64})
      for (const std::int64_t width : {0, 1, 31, 32, 33, 64})
        expect_exponents({numbers.data(), kStride, lines, width});
  };
  all_shapes();
  for (std::size_t i = 0; i < numbers.size(); i += 3) numbers[i] = i % 2 == 0 ? 0.0f : -0.0f;
  all_shapes();
  numbers[1] = std::numeric_limits<float>::quiet_NaN();
  numbers[2] = -std::numeric_limits<float>::infinity();
  numbers[4] = std::numeric_limits<float>::denorm_min();
  numbers[5] = std::numeric_limits<float>::max();
  all_shapes();
}

TEST(Reductions, ExponentsOfManySizesAreCounted) {
  std::vector<float> numbers(64 * kStride);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = std::ldexp(1.5f, static_cast<int>(i % 250) - 125);
  expect_exponents({numbers.data(), kStride, 64, 64});
  std::vector<float> equal(64 * 64, 0.75f);
  expect_exponents({equal.data(), 64, 64, 64});
  std::vector<float> zeros(64 * 64);
  expect_exponents({zeros.data(), 64, 64, 64});
}

TEST(Reductions, PowersAndSquaresAreSums) {
  const std::vector<float> numbers = normal_lines(64);
  for (const std::int64_t lines : {1, 2, 5, 64}) {
    for (const std::int64_t width : {1, 3, 4, 11, 64}) {
      const Lines<float> all{numbers.data(), kStride, lines, width};
      double second = 0, third = 0, fourth = 0;
      std::vector<double> by_line(64, -1), by_column(64, -1), line_sums(64), column_sums(64);
      for_each(all, [&](std::int64_t line, std::int64_t i, double x) {
        const double away = x - 0.25;
        second += away * away;
        third += away * away * away;
        fourth += away * away * away * away;
        line_sums[static_cast<std::size_t>(line)] += x * x;
        column_sums[static_cast<std::size_t>(i)] += x * x;
      });
      const Powers powers = powers_of_lines(all, 0.25);
      EXPECT_NEAR(powers.second, second, 1e-10 * second);
      EXPECT_NEAR(powers.third, third, 1e-10 * fourth);
      EXPECT_NEAR(powers.fourth, fourth, 1e-10 * fourth);
      squares_of_lines_and_columns(all, by_line.data(), by_column.data());
      for (std::size_t k = 0; k < 64; ++k) {
        const bool is_line = k < static_cast<std::size_t>(lines);
        const bool is_column = k < static_cast<std::size_t>(width);
        EXPECT_NEAR(by_line[k], is_line ? line_sums[k] : -1, 1e-12 * (1 + line_sums[k]));
        EXPECT_NEAR(by_column[k], is_column ? column_sums[k] : -1, 1e-12 * (1 + column_sums[k]));
      }
    }
  }
}

template <typename Number>
void expect_first_outside() {
  constexpr Number kInfinity = std::numeric_limits<Number>::infinity();
  const Number outside[] = {std::numeric_limits<Number>::quiet_NaN(), Number{2.5}, Number{-1.5},
                            kInfinity, -kInfinity};
  for (const std::int64_t n : {0, 1, 7, 63, 64, 65, 127, 200}) {
    std::vector<Number> numbers(static_cast<std::size_t>(n) + 1, Number{2});
    numbers.back() = Number{9};  // is not one of the n
    EXPECT_EQ(first_outside(numbers.data(), n, Number{-1}, Number{2}), n);
    for (std::int64_t at = n - 1; at >= 0; --at) {
      numbers[static_cast<std::size_t>(at)] = outside[at % 5];
      EXPECT_EQ(first_outside(numbers.data(), n, Number{-1}, Number{2}), at) << n;
    }
  }
}

TEST(Reductions, TheFirstNumberOutsideARangeIsFound) {
  expect_first_outside<float>();
  expect_first_outside<double>();
}

}  // namespace
}  // namespace tt::trace
