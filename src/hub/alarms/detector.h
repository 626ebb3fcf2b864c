#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "tensor_tracer/protocol/request.h"

namespace tt::hub {

enum class Verdict { kWaiting, kInside, kOutside };

/// The values that `sigma` compares with.
struct Baseline {
  double mean = 0;
  double deviation = 0;  // standard deviation with n - 1; NaN of one value
};
Baseline baseline_of(const std::deque<double>& values);

/// The test of one line of a curve: docs/alarms.md, "The test". Takes the values of the line in
/// their order.
/// Thread: the hub's I/O thread only.
class Detector {
 public:
  /// REQUIRES: check_alarm(rule).ok().
  explicit Detector(const protocol::SetAlarm& rule);

  Verdict take(std::uint64_t step, double value);
  /// How the last value stands to its range: "is above 5". REQUIRES: take() was called.
  std::string explain() const;

  /// The baseline of the first values, once it has all of them.
  std::optional<Baseline> first_baseline() const;
  /// Continues with such a baseline, or sets the one that the rule's `baseline` stands for.
  void continue_with(Baseline baseline) { baseline_ = baseline; }

 private:
  enum class Test { kAbove, kBelow, kRising, kFalling, kSigma, kRange, kNonfinite };
  enum class Side { kBoth, kAbove, kBelow };
  enum class From { kWindow, kFirst, kGiven };  // the values of the baseline
  using Point = std::pair<double, double>;      // step, value

  Verdict compare(std::uint64_t step);
  Verdict compare_slope(std::uint64_t step);
  Verdict compare_sigma();
  void keep_inside();
  void keep_outside();
  std::string explain_sigma() const;

  static Test test_of(const std::string& name);
  static Side side_of(const std::string& name);
  static From from_of(const protocol::SetAlarm& rule);

  const Test test_;
  const Side side_;
  const double limit_;  // of the value, the slope, or in standard deviations
  const double low_;
  const double high_;
  const std::size_t size_;  // of the window, or the number of first values
  const From from_;
  double value_ = 0;         // the last one
  double slope_ = 0;         // per step, at the last value
  std::deque<Point> curve_;  // of a slope
  std::deque<double> inside_;
  std::deque<double> outside_;  // the last values, all of them outside
  std::optional<Baseline> baseline_;
};

}  // namespace tt::hub
