#include "src/hub/alarms/record_curve.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tensor_tracer/base/ranges.h"
#include "tensor_tracer/protocol/crc32c.h"
#include "tensor_tracer/protocol/json_members.h"
#include "tensor_tracer/protocol/record_numbers.h"

namespace tt::hub {
namespace {

using nlohmann::json;
using protocol::member;
using protocol::natural;
using protocol::SetAlarm;
using protocol::text_of;

// docs/protocol.md, "stats".
constexpr std::size_t kStatsNumbers = 10;
enum StatsIndex : std::uint8_t {
  kCount,
  kMean,
  kStd,
  kMin,
  kMax,
  kNorm,
  kZeros,
  kNan,
  kInf,
  kNegInf
};

base::Error no_entry(const SetAlarm& alarm, const std::string& why) {
  const std::string kind = alarm.statistic ? "stats" : "projection";
  return base::invalid_argument(
      "point", why,
      "add an entry of " + *alarm.point + " with the compressor " + kind + " to the plan");
}

// The name of the point in plans. Also finds a point by its path.
std::string find_point(const json& facts, const std::string& name) {
  for (const json& point : member(facts, "points")) {
    if (text_of(point, "name") == name || text_of(point, "path") == name) {
      return text_of(point, "name");
    }
  }
  return "";
}

std::optional<std::uint64_t> find_prompts(const json& facts, const std::string& name) {
  std::uint64_t number = 0;
  for (const json& set : member(facts, "prompt_sets")) {
    ++number;
    if (text_of(set, "name") == name) return number;
  }
  return std::nullopt;
}

bool has_phase(const json& entry, const std::string& phase) {
  const json& phases = member(entry, "phases");
  return phases.is_array() ? std::ranges::find(phases, json(phase)) != phases.end()
                           : phase == "train";
}

bool overlaps(const std::optional<std::set<std::uint16_t>>& layers, const json& entry) {
  const std::string text = text_of(entry, "layers");
  const auto of_entry = base::parse_numbers(text);
  return !layers || text.empty() || !of_entry ||
         std::ranges::any_of(*layers,
                             [&](std::uint16_t layer) { return of_entry->contains(layer); });
}

bool takes(const json& entry, const SetAlarm& alarm, const std::string& point) {
  const std::string direction = text_of(entry, "direction");
  const std::string prompts = text_of(entry, "prompts");
  return entry.is_object() && text_of(entry, "point") == point &&
         member(entry, "enabled") != json(false) &&
         (direction.empty() ? "value" : direction) == alarm.direction.value_or("value") &&
         prompts == alarm.prompts.value_or("") &&
         (alarm.prompts || has_phase(entry, alarm.phase.value_or("train"))) &&
         text_of(member(entry, "compressor"), "kind") == (alarm.statistic ? "stats" : "projection");
}

double statistic_of(const std::vector<double>& numbers, const std::string& name) {
  const double bad = numbers[kNan] + numbers[kInf] + numbers[kNegInf];
  if (name == "mean") return numbers[kMean];
  if (name == "std") return numbers[kStd];
  if (name == "min") return numbers[kMin];
  if (name == "max") return numbers[kMax];
  if (name == "norm") return numbers[kNorm];
  if (name == "zeros") return numbers[kZeros];
  if (name == "rms") return numbers[kNorm] / std::sqrt(numbers[kCount] - bad);
  return bad;
}

// Of column `column`: the mean over all lines, or the last line of the first row.
double projection_of(const std::vector<double>& numbers, const protocol::RecordHeader& header,
                     std::size_t column, bool is_last_token) {
  const std::size_t columns = header.shape[header.ndim - 1];
  const std::size_t lines = numbers.size() / columns;
  if (is_last_token) {
    const std::size_t tokens = header.ndim > 1 ? header.shape[header.ndim - 2] : 1;
    return numbers[(tokens - 1) * columns + column];
  }
  double sum = 0;
  for (std::size_t line = 0; line < lines; ++line) sum += numbers[line * columns + column];
  return sum / static_cast<double>(lines);
}

}  // namespace

base::Result<RecordCurve> RecordCurve::find(const SetAlarm& alarm, const json& facts) {
  const std::string point = find_point(facts, *alarm.point);
  if (point.empty()) {
    return base::invalid_argument("point", "the run has no point " + *alarm.point,
                                  "take a name from the run's facts");
  }
  RecordCurve curve;
  curve.statistic_ = alarm.statistic.value_or("");
  curve.is_last_token_ = alarm.over == "last";
  curve.phase_ =
      alarm.phase == "eval" ? protocol::RecordPhase::kEval : protocol::RecordPhase::kTrain;
  if (alarm.layers) curve.layers_ = base::parse_numbers(*alarm.layers);
  if (alarm.prompts) {
    curve.prompt_set_ = find_prompts(facts, *alarm.prompts);
    if (!curve.prompt_set_) {
      return base::invalid_argument("prompts", "the run has no prompt set " + *alarm.prompts);
    }
  }
  const json& plan = member(facts, "plan");
  curve.plan_ = static_cast<std::uint32_t>(natural(plan, "number").value_or(0));
  base::Status found = no_entry(alarm, "no entry of the plan takes these records");
  std::uint32_t index = 0;
  for (const json& entry : member(plan, "entries")) {
    if (takes(entry, alarm, point)) {
      base::Status taken = curve.take_entry(alarm, entry, index);
      if (taken.ok() || curve.entries_.empty()) found = std::move(taken);
    }
    ++index;
  }
  return curve.entries_.empty() ? base::Result<RecordCurve>(found.error())
                                : base::Result<RecordCurve>(std::move(curve));
}

base::Status RecordCurve::take_entry(const SetAlarm& alarm, const json& entry,
                                     std::uint32_t index) {
  if (!overlaps(layers_, entry)) {
    return no_entry(alarm, "no entry of the plan takes the layers " + *alarm.layers);
  }
  std::size_t place = 0;
  if (alarm.vector) {
    const json& vectors = member(member(entry, "compressor"), "vectors");
    const auto found = std::ranges::find(vectors, json(*alarm.vector));
    if (found == vectors.end()) {
      return no_entry(alarm, "no entry of the plan projects on " + *alarm.vector);
    }
    place = static_cast<std::size_t>(found - vectors.begin());
  }
  entries_.emplace(index, place);
  return {};
}

std::set<std::uint32_t> RecordCurve::entries() const {
  std::set<std::uint32_t> entries;
  for (const auto& [entry, column] : entries_) entries.insert(entry);
  return entries;
}

bool RecordCurve::has(const protocol::RecordHeader& header) const {
  const bool fits = prompt_set_ ? header.prompt_set == *prompt_set_
                                : header.prompt_set == 0 && header.phase == phase_;
  return fits && header.plan == plan_ && entries_.contains(header.entry) &&
         (!layers_ || layers_->contains(header.layer));
}

std::optional<double> RecordCurve::number_of(const protocol::RecordView& record) const {
  const protocol::RecordHeader& header = record.header;
  if (!has(header) || protocol::crc32c(record.payload) != header.payload_crc) return std::nullopt;
  const std::vector<double> numbers = protocol::numbers_of(record);
  if (!statistic_.empty()) {
    const bool is_stats = header.compressor == protocol::RecordCompressor::kStats;
    return is_stats && numbers.size() >= kStatsNumbers
               ? std::optional(statistic_of(numbers, statistic_))
               : std::nullopt;
  }
  const std::size_t column = entries_.at(header.entry);
  const bool is_projection = header.compressor == protocol::RecordCompressor::kProjection;
  return is_projection && header.ndim > 0 && !numbers.empty() &&
                 column < header.shape[header.ndim - 1]
             ? std::optional(projection_of(numbers, header, column, is_last_token_))
             : std::nullopt;
}

}  // namespace tt::hub
