#include "src/hub/alarms/detector.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <random>
#include <string>
#include <vector>

/// The tests of an alarm, on series whose answers are known.
namespace tt::hub {
namespace {

using protocol::SetAlarm;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A letter for each value: "." waits, "i" inside, "O" outside.
std::string verdicts(const SetAlarm& rule, const std::vector<double>& values) {
  Detector detector(rule);
  std::string letters;
  std::uint64_t step = 0;
  for (const double value : values) {
    const Verdict verdict = detector.take(++step, value);
    letters += verdict == Verdict::kWaiting ? '.' : verdict == Verdict::kInside ? 'i' : 'O';
  }
  return letters;
}

SetAlarm sigma(double k, std::optional<std::uint64_t> window, std::optional<std::uint64_t> first,
               std::optional<std::string> side = {}) {
  return {.test = "sigma", .k = k, .side = std::move(side), .window = window, .first = first};
}

TEST(Detector, ComparesValues) {
  EXPECT_EQ(verdicts({.test = "above", .value = 5}, {4, 5, 6, -7}), "iiOi");
  EXPECT_EQ(verdicts({.test = "below", .value = 5}, {4, 5, 6}), "Oii");
  EXPECT_EQ(verdicts({.test = "range", .low = 0, .high = 1}, {0, 1, -0.1, 1.1}), "iiOO");
  EXPECT_EQ(verdicts({.test = "nonfinite"}, {1, kNan, kInfinity, -kInfinity, 2}), "iOOOi");
}

TEST(Detector, NumbersThatAreNotFiniteFireEveryTest) {
  for (const SetAlarm& rule : {SetAlarm{.test = "above", .value = 5},
                               {.test = "below", .value = -5},
                               {.test = "range", .low = -9, .high = 9},
                               {.test = "rising", .value = 9, .window = 2},
                               sigma(9, 2, {}),
                               sigma(9, {}, 2)})
    for (const double bad : {kNan, kInfinity, -kInfinity})
      EXPECT_EQ(verdicts(rule, {bad}), "O") << rule.test;
}

TEST(Detector, TheSlopeIsThatOfTheLeastSquaresLine) {
  // Slopes of (1,1),(2,2),(3,4): 1.5; (2,2),(3,4),(4,0): -1; (3,4),(4,0),(5,0): -2.
  const std::vector<double> values = {1, 2, 4, 0, 0};
  EXPECT_EQ(verdicts({.test = "rising", .value = 1.49, .window = 3}, values), "..Oii");
  EXPECT_EQ(verdicts({.test = "rising", .value = 1.51, .window = 3}, values), "..iii");
  EXPECT_EQ(verdicts({.test = "falling", .value = 0.99, .window = 3}, values), "..iOO");
  EXPECT_EQ(verdicts({.test = "falling", .value = 1.01, .window = 3}, values), "..iiO");
  // NaN does not enter the line: its steps are 1, 2 and 4.
  EXPECT_EQ(verdicts({.test = "rising", .value = 0.9, .window = 3}, {1, 2, kNan, 4}), "..OO");
}

TEST(Detector, TheFirstValuesStayTheBaseline) {
  // Mean 2, deviation 1: 5 is 3 away.
  EXPECT_EQ(verdicts(sigma(2.9, {}, 3), {1, 2, 3, 5, 5, 5, 2}), "...OOOi");
  EXPECT_EQ(verdicts(sigma(3.1, {}, 3), {1, 2, 3, 5, -1}), "...ii");
  EXPECT_EQ(verdicts(sigma(2.9, {}, 3, "above"), {1, 2, 3, -9, 9}), "...iO");
  EXPECT_EQ(verdicts(sigma(2.9, {}, 3, "below"), {1, 2, 3, -9, 9}), "...Oi");
}

TEST(Detector, TheWindowMovesWithTheCurveButNotWithASpike) {
  // 1,2,3: mean 2, deviation 1. 4 is inside and enters: 2,3,4 has mean 3.
  EXPECT_EQ(verdicts(sigma(2.5, 3, {}), {1, 2, 3, 4, 5.6}), "...iO");
  // 9 does not enter, so the second 9 is outside too.
  EXPECT_EQ(verdicts(sigma(2.5, 3, {}), {1, 2, 3, 9, 9, 2}), "...OOi");
  // Three values outside are the new level; after them the level is 9, 9, 9.
  EXPECT_EQ(verdicts(sigma(2.5, 3, {}), {1, 2, 3, 9, 9, 9, 9, 2}), "...OOOiO");
}

TEST(Detector, AConstantBaselineHasNoWidth) {
  EXPECT_EQ(verdicts(sigma(6, 3, {}), {1, 1, 1, 1, 1.0001}), "...iO");
}

TEST(Detector, ContinuesWithABaseline) {
  Detector detector(sigma(3, {}, 100));
  EXPECT_FALSE(detector.first_baseline());
  detector.continue_with({.mean = 2, .deviation = 1});
  EXPECT_EQ(detector.take(1, 5.1), Verdict::kOutside);
  EXPECT_EQ(detector.take(2, 4.9), Verdict::kInside);
  EXPECT_EQ(detector.first_baseline()->mean, 2);
}

TEST(Detector, ExplainsTheValue) {
  const auto said = [](const SetAlarm& rule, const std::vector<double>& values) {
    Detector detector(rule);
    std::uint64_t step = 0;
    for (const double value : values) detector.take(++step, value);
    return detector.explain();
  };
  EXPECT_EQ(said({.test = "above", .value = 5}, {7}), "is above 5");
  EXPECT_EQ(said({.test = "above", .value = 5}, {kNan}), "is NaN");
  EXPECT_EQ(said({.test = "range", .low = 0, .high = 1.5}, {-kInfinity}), "is -Infinity");
  EXPECT_EQ(said({.test = "range", .low = 0, .high = 1.5}, {2}), "is outside of 0 to 1.5");
  EXPECT_EQ(said({.test = "falling", .value = 1, .window = 2}, {9, 2}),
            "falls by 7 per step over 2 values, more than 1");
  EXPECT_EQ(said(sigma(2, {}, 3), {1, 2, 3, -5}),
            "is 7.0 standard deviations below 2, the mean of the first 3 values");
  EXPECT_EQ(said(sigma(2, 2, {}), {1, 1, 4}), "is 3 above 1, the mean of the last 2 values");
}

/// Gaussian noise by Box and Muller, the same on every machine. Thread: one at a time.
class Noise {
 public:
  explicit Noise(std::uint64_t seed) : bits_(seed) {}
  double next() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  double uniform() { return static_cast<double>(bits_() >> 11U) * 0x1p-53; }
  std::mt19937_64 bits_;
};

// Values outside, of `count` values of noise for each of five seeds.
int false_alarms(const SetAlarm& rule, int count) {
  int outside = 0;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Noise noise(seed);
    Detector detector(rule);
    for (int i = 0; i < count; ++i) {
      const bool is_outside =
          detector.take(static_cast<std::uint64_t>(i), 3 + 0.1 * noise.next()) == Verdict::kOutside;
      outside += is_outside ? 1 : 0;
    }
  }
  return outside;
}

// The share of a t distribution with window - 1 degrees of freedom beyond k / sqrt(1 + 1 / window),
// of 500,000 values (SciPy): 1,786 for k = 3 and window 100; 66 for k = 4; 1.4 for k = 5; 0.02 for
// k = 6; 477 for k = 4 and window 20. A value outside does not enter its window, so the windows are
// a little narrower than the noise, and the counts a little higher.
TEST(Detector, SeldomFiresOnNoise) {
  constexpr int kCount = 100'000;
  const int three = false_alarms(sigma(3, 100, {}), kCount);
  EXPECT_GT(three, 1786);
  EXPECT_LT(three, 1786 * 1.4);
  EXPECT_LT(false_alarms(sigma(4, 100, {}), kCount), 66 * 1.5);
  EXPECT_LE(false_alarms(sigma(5, 100, {}), kCount), 4);
  EXPECT_EQ(false_alarms(sigma(6, 100, {}), kCount), 0);
  EXPECT_LT(false_alarms(sigma(4, 20, {}), kCount), 477 * 1.5);
}

}  // namespace
}  // namespace tt::hub
