#include "src/hub/alarms/alarm.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "src/hub/alarms/alarm_rule.h"
#include "tensor_tracer/protocol/json_members.h"

namespace tt::hub {
namespace {

using nlohmann::json;
using protocol::member;
using protocol::natural;
using protocol::number_of;

json describe_change(const AlarmChange& change) {
  json told = {{"step", change.step}, {"value", change.value}, {"message", change.message}};
  if (change.layer > 0) told["layer"] = change.layer;
  return told;
}

}  // namespace

base::Status Alarm::follow(const json& facts) {
  if (rule_.scalar) return {};
  auto curve = RecordCurve::find(rule_, facts);
  problem_ = curve.ok() ? "" : curve.error().message;
  curve_.reset();
  if (!curve.ok()) return curve.error();
  curve_ = std::move(curve).value();
  return {};
}

std::set<std::uint32_t> Alarm::entries() const {
  return curve_ ? curve_->entries() : std::set<std::uint32_t>();
}

void Alarm::restart() {
  lines_.clear();
  values_.clear();
  firing_.clear();
  last_.reset();
  fires_ = 0;
  has_news_ = true;
}

void Alarm::warm(const json& step) {
  const auto value = rule_.scalar ? number_of(member(step, *rule_.scalar)) : std::nullopt;
  if (value) line_of(0)->detector.take(natural(step, "step").value_or(0), *value);
}

Alarm::Line* Alarm::line_of(std::uint16_t layer) {
  const auto known = lines_.find(layer);
  if (known != lines_.end()) return &known->second;
  return lines_.size() < kMaxLines ? &lines_.emplace(layer, Line(rule_)).first->second : nullptr;
}

void Alarm::take_record(const protocol::RecordView& record) {
  if (rule_.mean_over) return;
  if (const auto value = curve_ ? curve_->number_of(record) : std::nullopt)
    values_.emplace_back(record.header.step, record.header.layer, *value);
}

void Alarm::take_mean(const ProjectionMean& mean) {
  if (!curve_ || !curve_->has(mean)) return;
  double value = mean.value;
  if (rule_.baseline.value_or(false)) {
    const bool is_sigma = rule_.test == "sigma";
    // One prompt has no deviation.
    if (!mean.baseline || (is_sigma && !std::isfinite(mean.baseline->deviation))) return;
    Line* const line = line_of(mean.layer);
    if (line != nullptr && is_sigma) line->detector.continue_with(*mean.baseline);
    if (!is_sigma) value -= mean.baseline->mean;
  }
  values_.emplace_back(mean.step, mean.layer, value);
}

std::vector<AlarmChange> Alarm::compare(const json& step) {
  if (const auto value = rule_.scalar ? number_of(member(step, *rule_.scalar)) : std::nullopt)
    values_.emplace_back(natural(step, "step").value_or(0), std::uint16_t{0}, *value);
  std::vector<Value> values = std::exchange(values_, {});
  const auto order = [](const Value& value) {
    return std::pair(std::get<0>(value), std::get<1>(value));
  };
  std::ranges::stable_sort(values, {}, order);
  std::vector<AlarmChange> changes;
  for (auto begin = values.begin(); begin != values.end();) {
    const auto end = std::find_if(begin, values.end(), [&](const Value& value) {
      return std::get<0>(value) != std::get<0>(*begin);
    });
    if (auto change = take_step({begin, end})) changes.push_back(std::move(*change));
    begin = end;
  }
  return changes;
}

std::optional<AlarmChange> Alarm::take_step(std::span<const Value> values) {
  const bool was_firing = is_firing();
  const Value* first = nullptr;  // the first that left its range
  for (const Value& value : values) {
    const std::size_t before = firing_.size();
    take_value(value);
    if (first == nullptr && firing_.size() > before) first = &value;
  }
  if (is_firing() == was_firing) return std::nullopt;
  return note_change(!was_firing, was_firing || first == nullptr ? values.back() : *first);
}

void Alarm::take_value(const Value& value) {
  const auto& [step, layer, number] = value;
  Line* const line = line_of(layer);
  if (line == nullptr) return;
  const bool had_baseline = line->detector.first_baseline().has_value();
  const Verdict verdict = line->detector.take(step, number);
  has_news_ |= had_baseline != line->detector.first_baseline().has_value();
  if (verdict == Verdict::kWaiting) return;
  line->compared = true;
  line->outside = verdict == Verdict::kOutside ? line->outside + 1 : 0;
  if (line->outside >= rule_.consecutive.value_or(1))
    firing_.insert(layer);
  else if (line->outside == 0)
    firing_.erase(layer);
}

AlarmChange Alarm::note_change(bool fired, const Value& value) {
  const auto& [step, layer, number] = value;
  const std::string where = layer > 0 ? fmt::format(" in layer {}", layer) : "";
  const std::string shown = std::isfinite(number) ? fmt::format(": {:.6g}", number) : "";
  AlarmChange change{.fired = fired, .step = step, .value = number, .layer = layer};
  change.message =
      fired ? fmt::format("alarm {}: {}{} {} at step {}{}", rule_.name, curve_name(rule_), where,
                          line_of(layer)->detector.explain(), step, shown)
            : fmt::format("alarm {}: {} is back in its range at step {}", rule_.name,
                          curve_name(rule_), step);
  fires_ += fired ? 1 : 0;
  has_news_ = true;
  last_ = change;
  return change;
}

json Alarm::describe() const {
  const bool is_waiting =
      std::ranges::none_of(lines_, [](const auto& line) { return line.second.compared; });
  json told = protocol::params_of(rule_);
  told["state"] = is_firing() ? "firing" : is_waiting ? "waiting" : "quiet";
  told["fires"] = fires_;
  if (rule_.point && is_firing()) told["firing_layers"] = firing_;
  if (last_) told["last"] = describe_change(*last_);
  if (!problem_.empty()) told["problem"] = problem_;
  return told;
}

json Alarm::save() {
  has_news_ = false;
  json baselines = json::object();
  for (const auto& [layer, line] : lines_)
    if (const auto baseline = line.detector.first_baseline())
      baselines[std::to_string(layer)] = {baseline->mean, baseline->deviation};
  json saved = {{"alarm", protocol::params_of(rule_)},
                {"firing", firing_},
                {"fires", fires_},
                {"baselines", std::move(baselines)}};
  if (last_) saved["last"] = describe_change(*last_);
  return saved;
}

void Alarm::restore(const json& saved) {
  fires_ = natural(saved, "fires").value_or(0);
  for (const auto& [name, numbers] : member(saved, "baselines").items()) {
    std::uint16_t layer = 0;
    std::from_chars(name.data(), name.data() + name.size(), layer);
    Line* const line = line_of(layer);
    if (line != nullptr && numbers.is_array() && numbers.size() == 2) {
      line->detector.continue_with({.mean = number_of(numbers[0]).value_or(0),
                                    .deviation = number_of(numbers[1]).value_or(0)});
    }
  }
  for (const json& layer : member(saved, "firing")) {
    Line* const line = layer.is_number_unsigned() ? line_of(layer.get<std::uint16_t>()) : nullptr;
    if (line == nullptr) continue;
    firing_.insert(layer.get<std::uint16_t>());
    line->outside = rule_.consecutive.value_or(1);
  }
  if (const json& last = member(saved, "last"); last.is_object()) {
    last_ = AlarmChange{.fired = is_firing(),
                        .step = natural(last, "step").value_or(0),
                        .value = number_of(member(last, "value")).value_or(0),
                        .layer = static_cast<std::uint16_t>(natural(last, "layer").value_or(0)),
                        .message = protocol::text_of(last, "message")};
  }
}

}  // namespace tt::hub
