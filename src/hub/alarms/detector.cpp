#include "src/hub/alarms/detector.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "tensor_tracer/base/check.h"

namespace tt::hub {

Baseline baseline_of(const std::deque<double>& values) {
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  const double squares = std::accumulate(
      values.begin(), values.end(), 0.0,
      [&](double sum, double value) { return sum + (value - mean) * (value - mean); });
  return {.mean = mean, .deviation = std::sqrt(squares / (count - 1))};
}

namespace {

// Of the least-squares line.
double slope_of(const std::deque<std::pair<double, double>>& points) {
  const auto count = static_cast<double>(points.size());
  double mean_step = 0;
  double mean_value = 0;
  for (const auto& [step, value] : points) {
    mean_step += step / count;
    mean_value += value / count;
  }
  double products = 0;
  double squares = 0;
  for (const auto& [step, value] : points) {
    products += (step - mean_step) * (value - mean_value);
    squares += (step - mean_step) * (step - mean_step);
  }
  return squares > 0 ? products / squares : 0;
}

std::string name_of(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Infinity" : "-Infinity";
  return fmt::format("{:.6g}", value);
}

}  // namespace

Detector::Detector(const protocol::SetAlarm& rule)
    : test_(test_of(rule.test)),
      side_(side_of(rule.side.value_or("both"))),
      limit_(rule.value.value_or(rule.k.value_or(0))),
      low_(rule.low.value_or(0)),
      high_(rule.high.value_or(0)),
      size_(rule.window.value_or(rule.first.value_or(0))),
      from_(from_of(rule)) {}

Detector::From Detector::from_of(const protocol::SetAlarm& rule) {
  if (rule.baseline.value_or(false)) return From::kGiven;
  return rule.first ? From::kFirst : From::kWindow;
}

Detector::Test Detector::test_of(const std::string& name) {
  if (name == "above") return Test::kAbove;
  if (name == "below") return Test::kBelow;
  if (name == "rising") return Test::kRising;
  if (name == "falling") return Test::kFalling;
  if (name == "sigma") return Test::kSigma;
  if (name == "range") return Test::kRange;
  TT_CHECK(name == "nonfinite", "unknown test");
  return Test::kNonfinite;
}

Detector::Side Detector::side_of(const std::string& name) {
  if (name == "above") return Side::kAbove;
  return name == "below" ? Side::kBelow : Side::kBoth;
}

Verdict Detector::take(std::uint64_t step, double value) {
  value_ = value;
  return std::isfinite(value) ? compare(step) : Verdict::kOutside;
}

Verdict Detector::compare(std::uint64_t step) {
  const auto verdict = [](bool outside) { return outside ? Verdict::kOutside : Verdict::kInside; };
  switch (test_) {
    case Test::kAbove:
      return verdict(value_ > limit_);
    case Test::kBelow:
      return verdict(value_ < limit_);
    case Test::kRising:
    case Test::kFalling:
      return compare_slope(step);
    case Test::kSigma:
      return compare_sigma();
    case Test::kRange:
      return verdict(value_ < low_ || value_ > high_);
    case Test::kNonfinite:
      break;
  }
  return Verdict::kInside;
}

Verdict Detector::compare_slope(std::uint64_t step) {
  curve_.emplace_back(static_cast<double>(step), value_);
  if (curve_.size() > size_) curve_.pop_front();
  if (curve_.size() < size_) return Verdict::kWaiting;
  slope_ = slope_of(curve_);
  const bool outside = test_ == Test::kRising ? slope_ > limit_ : -slope_ > limit_;
  return outside ? Verdict::kOutside : Verdict::kInside;
}

Verdict Detector::compare_sigma() {
  if (from_ == From::kWindow && inside_.size() == size_) baseline_ = baseline_of(inside_);
  if (!baseline_) {
    if (from_ != From::kGiven) keep_inside();
    return Verdict::kWaiting;
  }
  const double distance = value_ - baseline_->mean;
  const double allowed = limit_ * baseline_->deviation;
  const bool outside = (side_ != Side::kBelow && distance > allowed) ||
                       (side_ != Side::kAbove && -distance > allowed);
  if (from_ == From::kWindow) outside ? keep_outside() : keep_inside();
  return outside ? Verdict::kOutside : Verdict::kInside;
}

void Detector::keep_inside() {
  outside_.clear();
  inside_.push_back(value_);
  if (inside_.size() > size_) inside_.pop_front();
  if (from_ == From::kFirst && inside_.size() == size_) {
    baseline_ = baseline_of(inside_);
    inside_.clear();
  }
}

// A whole window of values outside is the new level of the curve.
void Detector::keep_outside() {
  outside_.push_back(value_);
  if (outside_.size() == size_) inside_ = std::exchange(outside_, {});
}

std::optional<Baseline> Detector::first_baseline() const {
  return from_ == From::kFirst ? baseline_ : std::nullopt;
}

std::string Detector::explain() const {
  if (!std::isfinite(value_)) return "is " + name_of(value_);
  switch (test_) {
    case Test::kAbove:
      return "is above " + name_of(limit_);
    case Test::kBelow:
      return "is below " + name_of(limit_);
    case Test::kRising:
    case Test::kFalling:
      return fmt::format("{} by {} per step over {} values, more than {}",
                         test_ == Test::kRising ? "rises" : "falls", name_of(std::abs(slope_)),
                         size_, name_of(limit_));
    case Test::kSigma:
      return explain_sigma();
    case Test::kRange:
      return "is outside of " + name_of(low_) + " to " + name_of(high_);
    case Test::kNonfinite:
      break;
  }
  return "is finite";
}

std::string Detector::explain_sigma() const {
  const Baseline baseline = baseline_.value_or(Baseline());
  const double distance = std::abs(value_ - baseline.mean);
  const std::string far = baseline.deviation > 0 ? fmt::format("is {:.1f} standard deviations",
                                                               distance / baseline.deviation)
                                                 : "is " + name_of(distance);
  const std::string what = fmt::format("{} {} {}", far, value_ > baseline.mean ? "above" : "below",
                                       name_of(baseline.mean));
  if (from_ == From::kGiven) return what + ", the baseline of the run's start";
  return fmt::format("{}, the mean of the {} {} values", what,
                     from_ == From::kFirst ? "first" : "last", size_);
}

}  // namespace tt::hub
