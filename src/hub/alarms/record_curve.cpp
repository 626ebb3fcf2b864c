#include "src/hub/alarms/record_curve.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/hub/alarms/alarm_rule.h"
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

// docs/protocol.md, "stats": the first row of a record, and its second row.
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
constexpr std::array<std::string_view, 8> kSecondRow = {
    "kurtosis",         "",  // the root mean square
    "row_norm_min",     "row_norm_mean",
    "row_norm_max",     "column_norm_min",
    "column_norm_mean", "column_norm_max"};
// docs/protocol.md, "topk of Logits".
constexpr std::array<std::string_view, 3> kPrediction = {"log_sum_exp", "entropy", "loss"};
constexpr std::size_t kTarget = 3, kBestPlanes = 2;

base::Error no_entry(const SetAlarm& alarm, const std::string& why) {
  return base::invalid_argument("point", why,
                                "add an entry of " + *alarm.point + " with the compressor " +
                                    compressor_of(alarm) + " to the plan");
}

// The point with this name or path in the run's facts; null if the facts do not have it.
const json& point_of(const json& facts, const std::string& name) {
  static const json absent;
  const json& points = member(facts, "points");
  const auto found = std::ranges::find_if(points, [&](const json& point) {
    return text_of(point, "name") == name || text_of(point, "path") == name;
  });
  return found == points.end() ? absent : *found;
}

// The place of a name in a list, or of a number that is written as text.
std::optional<std::size_t> find_index(const json& names, const std::string& name) {
  const auto found = std::ranges::find(names, json(name));
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  std::size_t index = 0;
  const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), index);
  const bool is_number = code == std::errc() && end == name.data() + name.size();
  return is_number ? std::optional(index) : std::nullopt;
}

std::optional<std::uint64_t> find_prompts(const json& facts, const std::string& name) {
  std::uint64_t number = 0;
  for (const json& set : member(facts, "prompt_sets")) {
    ++number;
    if (text_of(set, "name") == name && member(set, "removed") != true) return number;
  }
  return std::nullopt;
}

// Runs of older versions do not tell the tokens of their prompts.
std::vector<std::size_t> lengths_of(const json& prompt_set) {
  std::vector<std::size_t> lengths;
  for (const json& tokens : member(prompt_set, "tokens")) lengths.push_back(tokens.size());
  return lengths;
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

// An alarm without mean_over follows the tokens of the prompts, without responses.
bool has_tokens(const json& entry, const SetAlarm& alarm) {
  if (alarm.mean_over) return text_of(entry, "mean_over") == *alarm.mean_over;
  return text_of(entry, "mean_over").empty() && member(entry, "responses") != json(true);
}

bool takes(const json& entry, const SetAlarm& alarm, const std::string& point) {
  const std::string direction = text_of(entry, "direction");
  const std::string prompts = text_of(entry, "prompts");
  return entry.is_object() && text_of(entry, "point") == point &&
         member(entry, "enabled") != json(false) &&
         (direction.empty() ? "value" : direction) == alarm.direction.value_or("value") &&
         prompts == alarm.prompts.value_or("") && has_tokens(entry, alarm) &&
         (alarm.prompts || has_phase(entry, alarm.phase.value_or("train"))) &&
         text_of(member(entry, "compressor"), "kind") == compressor_of(alarm);
}

std::optional<double> statistic_of(const std::vector<double>& numbers,
                                   const protocol::RecordHeader& header, const std::string& name) {
  if (numbers.size() < kStatsNumbers) return std::nullopt;
  if (const auto second = std::ranges::find(kSecondRow, name); second != kSecondRow.end()) {
    const std::size_t at =
        header.shape[header.ndim - 1] + static_cast<std::size_t>(second - kSecondRow.begin());
    return header.ndim == 2 && at < numbers.size() ? std::optional(numbers[at]) : std::nullopt;
  }
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

double mean_of(std::span<const double> numbers) {
  double sum = 0;
  for (const double number : numbers) sum += number;
  return sum / static_cast<double>(numbers.size());
}

// NaN, if there is one.
double largest_of(std::span<const double> numbers) {
  double largest = -std::numeric_limits<double>::infinity();
  for (const double number : numbers) {
    if (std::isnan(number)) return number;
    largest = std::max(largest, number);
  }
  return largest;
}

protocol::RecordCompressor code_of(const std::string& compressor) {
  if (compressor == "stats") return protocol::RecordCompressor::kStats;
  if (compressor == "topk") return protocol::RecordCompressor::kTopK;
  return compressor == "none" ? protocol::RecordCompressor::kNone
                              : protocol::RecordCompressor::kProjection;
}

}  // namespace

base::Result<RecordCurve> RecordCurve::find(const SetAlarm& alarm, const json& facts) {
  const json& point = point_of(facts, *alarm.point);
  if (point.is_null()) {
    return base::invalid_argument("point", "the run has no point " + *alarm.point,
                                  "take a name from the run's facts");
  }
  RecordCurve curve;
  curve.statistic_ = alarm.statistic.value_or("");
  curve.compressor_ = code_of(compressor_of(alarm));
  curve.over_ = alarm.over == "last" ? Over::kLast : Over::kMean;
  if (alarm.over == "largest") curve.over_ = Over::kLargest;
  curve.phase_ =
      alarm.phase == "eval" ? protocol::RecordPhase::kEval : protocol::RecordPhase::kTrain;
  if (alarm.layers) curve.layers_ = base::parse_numbers(*alarm.layers);
  if (alarm.prompts) {
    curve.prompt_set_ = find_prompts(facts, *alarm.prompts);
    if (!curve.prompt_set_)
      return base::invalid_argument("prompts", "the run has no prompt set " + *alarm.prompts);
    curve.lengths_ = lengths_of(member(facts, "prompt_sets")[*curve.prompt_set_ - 1]);
  }
  if (const base::Status chosen = curve.choose_cell(alarm, point); !chosen.ok())
    return chosen.error();
  const json& plan = member(facts, "plan");
  curve.plan_ = static_cast<std::uint32_t>(natural(plan, "number").value_or(0));
  base::Status found = no_entry(alarm, "no entry of the plan takes these records");
  std::uint32_t index = 0;
  for (const json& entry : member(plan, "entries")) {
    if (takes(entry, alarm, text_of(point, "name"))) {
      base::Status taken = curve.take_entry(alarm, entry, index);
      if (taken.ok() || curve.entries_.empty()) found = std::move(taken);
    }
    ++index;
  }
  return curve.entries_.empty() ? base::Result<RecordCurve>(found.error())
                                : base::Result<RecordCurve>(std::move(curve));
}

base::Status RecordCurve::choose_cell(const SetAlarm& alarm, const json& point) {
  if (alarm.column) {
    cell_.column = find_index(member(point, "columns"), *alarm.column);
    const auto columns = natural(point, "features");
    if (!cell_.column || (columns && *cell_.column >= *columns)) {
      return base::invalid_argument("column", *alarm.point + " has no column " + *alarm.column,
                                    "give a number from 0, or a name of the point's columns");
    }
  }
  if (alarm.parameter) {
    const json& names = member(point, "parameters");
    const auto found = std::ranges::find(names, json(*alarm.parameter));
    if (found == names.end()) {
      return base::invalid_argument("parameter",
                                    *alarm.point + " has no parameter " + *alarm.parameter,
                                    "take a name from the point's facts");
    }
    cell_.line = static_cast<std::size_t>(found - names.begin());
  }
  return {};
}

base::Status RecordCurve::take_entry(const SetAlarm& alarm, const json& entry,
                                     std::uint32_t index) {
  if (!overlaps(layers_, entry))
    return no_entry(alarm, "no entry of the plan takes the layers " + *alarm.layers);
  Cell cell = cell_;
  if (const json& tokens = member(entry, "tokens"); tokens.is_array() && !tokens.empty())
    cell.first_token = tokens[0].is_number_unsigned() ? tokens[0].get<std::size_t>() : 0;
  if (alarm.vector) {
    const json& vectors = member(member(entry, "compressor"), "vectors");
    const auto found = std::ranges::find(vectors, json(*alarm.vector));
    if (found == vectors.end())
      return no_entry(alarm, "no entry of the plan projects on " + *alarm.vector);
    cell.column = static_cast<std::size_t>(found - vectors.begin());
    if (alarm.mean_over && !series_)
      series_ = series_of(entry, text_of(entry, "point")).at(*cell.column);
  }
  if (cell.line && member(entry, "tokens").is_array())
    return no_entry(alarm, "the entry of the plan leaves out parameters");
  entries_.emplace(index, cell);
  return {};
}

std::set<std::uint32_t> RecordCurve::entries() const {
  std::set<std::uint32_t> entries;
  for (const auto& [entry, cell] : entries_) entries.insert(entry);
  return entries;
}

bool RecordCurve::has(const protocol::RecordHeader& header) const {
  const bool fits = prompt_set_ ? header.prompt_set == *prompt_set_
                                : header.prompt_set == 0 && header.phase == phase_;
  return fits && header.plan == plan_ && header.compressor == compressor_ && header.ndim > 0 &&
         entries_.contains(header.entry) && (!layers_ || layers_->contains(header.layer));
}

std::optional<double> RecordCurve::number_of(const protocol::RecordView& record) const {
  const protocol::RecordHeader& header = record.header;
  if (!has(header) || protocol::crc32c(record.payload) != header.payload_crc) return std::nullopt;
  const std::vector<double> numbers = protocol::numbers_of(record);
  if (compressor_ == protocol::RecordCompressor::kStats)
    return statistic_of(numbers, header, statistic_);
  const Cell& cell = entries_.at(header.entry);
  return compressor_ == protocol::RecordCompressor::kTopK ? prediction_of(numbers, header, cell)
                                                          : value_of(numbers, header, cell);
}

std::optional<double> RecordCurve::value_of(const std::vector<double>& numbers,
                                            const protocol::RecordHeader& header,
                                            const Cell& cell) const {
  const std::size_t columns = header.shape[header.ndim - 1];
  const std::size_t count = columns == 0 ? 0 : numbers.size() / columns;
  if (count <= cell.line.value_or(0) || columns <= cell.column.value_or(0)) return std::nullopt;
  const std::size_t tokens = header.ndim > 1 ? header.shape[header.ndim - 2] : 1;
  const std::size_t in_row = header.ndim > 2 ? count / header.shape[0] : count;
  const std::size_t first = cell.line.value_or(0), end = cell.line ? first + 1 : count;
  Rows rows;
  for (std::size_t line = first; line < end; ++line) {
    if (line == first || line % tokens == 0) rows.emplace_back();
    if (is_padding(header, cell, line / in_row, line % tokens)) continue;
    const auto all = std::span(numbers).subspan(line * columns, columns);
    const double over_columns = over_ == Over::kLargest ? largest_of(all) : mean_of(all);
    rows.back().push_back(cell.column ? all[*cell.column] : over_columns);
  }
  return over_rows(rows);
}

// A record of older versions, and one of a point without a vocabulary, has no such planes.
std::optional<double> RecordCurve::prediction_of(const std::vector<double>& numbers,
                                                 const protocol::RecordHeader& header,
                                                 const Cell& cell) const {
  const std::size_t tokens = header.shape[2], k = header.shape[3];
  const std::size_t lines = header.shape[1] * tokens;
  const auto at = [&](std::size_t number, std::size_t line) {
    return ((kBestPlanes + number / k) * lines + line) * k + number % k;
  };
  if (header.ndim != 4 || k == 0 || lines == 0 || at(kTarget, lines - 1) >= numbers.size())
    return std::nullopt;
  const auto number =
      static_cast<std::size_t>(std::ranges::find(kPrediction, statistic_) - kPrediction.begin());
  Rows rows(header.shape[1]);
  for (std::size_t line = 0; line < lines; ++line) {
    const bool has_number = statistic_ != "loss" || numbers[at(kTarget, line)] >= 0;
    if (has_number && !is_padding(header, cell, line / tokens, line % tokens))
      rows[line / tokens].push_back(numbers[at(number, line)]);
  }
  return over_rows(rows);
}

bool RecordCurve::is_padding(const protocol::RecordHeader& header, const Cell& cell,
                             std::size_t row, std::size_t token) const {
  const std::size_t prompt = header.first_row + row;
  return prompt < lengths_.size() && cell.first_token + token >= lengths_[prompt];
}

std::optional<double> RecordCurve::over_rows(const Rows& rows) const {
  std::vector<double> numbers;
  for (const std::vector<double>& row : rows) {
    if (row.empty()) continue;
    numbers.insert(numbers.end(), over_ == Over::kLast ? row.end() - 1 : row.begin(), row.end());
  }
  if (numbers.empty()) return std::nullopt;
  return over_ == Over::kLargest ? largest_of(numbers) : mean_of(numbers);
}

}  // namespace tt::hub
