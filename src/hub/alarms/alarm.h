#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "src/hub/alarms/detector.h"
#include "src/hub/alarms/record_curve.h"
#include "tensor_tracer/protocol/request.h"

namespace tt::hub {

/// An alarm has fired or was cleared.
struct AlarmChange {
  bool fired = false;
  std::uint64_t step = 0;
  double value = 0;
  std::uint16_t layer = 0;  // 0: none
  std::string message = {};
};

/// One alarm with its state: docs/alarms.md. Layer 0 is the one line of a scalar, or of a point
/// without layers.
/// Thread: the hub's I/O thread only.
class Alarm {
 public:
  /// The lines of one curve; further layers are left out.
  static constexpr std::size_t kMaxLines = 256;

  /// REQUIRES: check_alarm(rule).ok().
  explicit Alarm(protocol::SetAlarm rule) : rule_(std::move(rule)) {}

  const protocol::SetAlarm& rule() const { return rule_; }
  bool is_firing() const { return !firing_.empty(); }
  /// It has changed since save() was last called.
  bool has_news() const { return has_news_; }

  /// Draws its numbers from the records of the plan in `facts`. If the plan has no entry for it,
  /// the alarm waits. Without effect on the alarm of a scalar.
  base::Status follow(const nlohmann::json& facts);
  /// The entries of the plan whose records it compares.
  std::set<std::uint32_t> entries() const;
  /// Another run begins: forgets all values.
  void restart();
  /// Takes a step of the past, which fires nothing.
  void warm(const nlohmann::json& step);
  void take_record(const protocol::RecordView& record);
  void take_mean(const ProjectionMean& mean);
  /// Compares the values that have arrived since the last call. `step`: params of the step that has
  /// ended, or null.
  std::vector<AlarmChange> compare(const nlohmann::json& step);

  /// The alarm as viewers see it: the members of its rule, and its state.
  nlohmann::json describe() const;
  /// The part of the state that outlives the hub.
  nlohmann::json save();
  void restore(const nlohmann::json& saved);

 private:
  struct Line {
    explicit Line(const protocol::SetAlarm& rule) : detector(rule) {}
    Detector detector;
    std::uint64_t outside = 0;  // values in a row
    bool compared = false;      // its detector has all values that it needs
  };
  using Value = std::tuple<std::uint64_t, std::uint16_t, double>;  // step, layer, value

  Line* line_of(std::uint16_t layer);
  /// Takes the values of one step, by layer.
  std::optional<AlarmChange> take_step(std::span<const Value> values);
  /// Updates the line of the value, and whether the line fires.
  void take_value(const Value& value);
  AlarmChange note_change(bool fired, const Value& value);

  const protocol::SetAlarm rule_;
  std::optional<RecordCurve> curve_;
  std::string problem_;
  std::map<std::uint16_t, Line> lines_;
  std::vector<Value> values_;        // not compared yet
  std::set<std::uint16_t> firing_;   // layers
  std::optional<AlarmChange> last_;  // change
  std::uint64_t fires_ = 0;
  bool has_news_ = true;
};

}  // namespace tt::hub
