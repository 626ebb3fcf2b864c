#include "src/hub/alarms/alarm_rule.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "tensor_tracer/base/nearest.h"
#include "tensor_tracer/base/private_file.h"
#include "tensor_tracer/base/ranges.h"
#include "tensor_tracer/hub/alarms.h"
#include "tensor_tracer/protocol/message.h"

namespace tt::hub {
namespace {

using protocol::SetAlarm;
using Names = std::vector<std::string>;

const Names kScalars = {"loss",    "valid_loss", "grad_norm", "lr",       "tokens_per_second",
                        "step_ms", "tracer_ms",  "gather_ms", "encode_ms"};
const std::string kValue = "value";
// By the compressor of the records that hold them.
const std::map<std::string, Names> kStatistics = {
    {"stats",
     {"mean", "std", "min", "max", "norm", "rms", "zeros", "nonfinite", "kurtosis", "row_norm_min",
      "row_norm_mean", "row_norm_max", "column_norm_min", "column_norm_mean", "column_norm_max"}},
    {"topk", {"log_sum_exp", "entropy", "loss"}},
    {"none", {kValue}}};

/// The members that a test needs; all other members of tests are refused.
struct TestForm {
  std::string_view name;
  std::string_view needs;
  std::string_view may_have = {};
};
constexpr std::array<TestForm, 7> kTests = {
    TestForm{.name = "above", .needs = "value"},
    TestForm{.name = "below", .needs = "value"},
    TestForm{.name = "rising", .needs = "value window"},
    TestForm{.name = "falling", .needs = "value window"},
    TestForm{.name = "sigma", .needs = "k", .may_have = "window first side"},
    TestForm{.name = "range", .needs = "low high"},
    TestForm{.name = "nonfinite", .needs = ""}};
constexpr std::array<std::string_view, 7> kTestMembers = {"value", "low",    "high", "k",
                                                          "side",  "window", "first"};
constexpr std::array<std::string_view, 12> kPointMembers = {
    "statistic", "vector", "over",    "column", "parameter", "layers",
    "direction", "phase",  "prompts", "point",  "mean_over", "baseline"};

std::string listed(const Names& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

base::Status check_word(const char* member, const std::optional<std::string>& word,
                        const Names& known) {
  if (!word || std::ranges::find(known, *word) != known.end()) return {};
  const std::string near = base::nearest_word(*word, known);
  return base::invalid_argument(member, "must be one of " + listed(known),
                                near.empty() ? "" : "did you mean " + near + "?");
}

base::Status check_scalar(const SetAlarm& alarm, const nlohmann::json& members) {
  for (const std::string_view member : kPointMembers) {
    if (members.contains(member)) {
      return base::invalid_argument(std::string(member), "belongs to an alarm with a point",
                                    "remove it, or remove scalar");
    }
  }
  return check_word("scalar", alarm.scalar, kScalars);
}

// A record of `stats` has one number; other records have lines and columns.
base::Status check_lines(const SetAlarm& alarm) {
  Names names;
  for (const auto& [compressor, of] : kStatistics) names.insert(names.end(), of.begin(), of.end());
  const base::Status known = check_word("statistic", alarm.statistic, names);
  if (!known.ok()) return known;
  if (alarm.over && compressor_of(alarm) == "stats") {
    return base::invalid_argument("over", "a stats record has one number for all lines",
                                  "remove it");
  }
  for (const auto& [member, given] : {std::pair("column", alarm.column.has_value()),
                                      std::pair("parameter", alarm.parameter.has_value())}) {
    if (given && alarm.statistic != kValue) {
      return base::invalid_argument(member, "belongs to an alarm with the statistic value",
                                    "remove it");
    }
  }
  return {};
}

// Means belong to projections of prompts, and have one line.
base::Status check_mean(const SetAlarm& alarm) {
  const base::Status known =
      check_word("mean_over", alarm.mean_over, {"prompt", "last-prompt", "response"});
  if (!known.ok()) return known;
  if (!alarm.mean_over) {
    if (!alarm.baseline.value_or(false)) return {};
    return base::invalid_argument("baseline", "only projections with mean_over have a baseline",
                                  "add mean_over, such as last-prompt");
  }
  if (!alarm.vector || !alarm.prompts) {
    return base::invalid_argument("mean_over", "belongs to a projection of prompts",
                                  "add vector and prompts, or remove it");
  }
  if (alarm.over)
    return base::invalid_argument("over", "the mean over all prompts is one number", "remove it");
  return {};
}

base::Status check_point(const SetAlarm& alarm) {
  if (alarm.statistic.has_value() == alarm.vector.has_value()) {
    return base::invalid_argument("statistic", "an alarm on a point has either statistic or vector",
                                  "give one of them");
  }
  if (const base::Status lines = check_lines(alarm); !lines.ok()) return lines;
  if (const base::Status mean = check_mean(alarm); !mean.ok()) return mean;
  if (alarm.phase && alarm.prompts)
    return base::invalid_argument("phase", "prompts have no phase", "remove phase or prompts");
  if (alarm.layers && !base::parse_numbers(*alarm.layers))
    return base::invalid_argument("layers", "must be a list of layers such as 1-4,8");
  for (const base::Status& status :
       {check_word("over", alarm.over, {"mean", "largest", "last"}),
        check_word("direction", alarm.direction, {"value", "gradient"}),
        check_word("phase", alarm.phase, {"train", "eval"})})
    if (!status.ok()) return status;
  return {};
}

base::Status check_test(const SetAlarm& alarm, const nlohmann::json& members) {
  Names names;
  for (const TestForm& form : kTests) names.emplace_back(form.name);
  if (base::Status known = check_word("test", alarm.test, names); !known.ok()) return known;
  const TestForm& form = *std::ranges::find(kTests, alarm.test, &TestForm::name);
  for (const std::string_view member : kTestMembers) {
    const bool needed = base::has_word(form.needs, member);
    const bool given = members.contains(member);
    if (needed && !given)
      return base::invalid_argument(std::string(member), "the test " + alarm.test + " needs it");
    if (given && !needed && !base::has_word(form.may_have, member)) {
      return base::invalid_argument(std::string(member),
                                    "the test " + alarm.test + " does not use it", "remove it");
    }
  }
  const int baselines =
      (alarm.window ? 1 : 0) + (alarm.first ? 1 : 0) + (alarm.baseline.value_or(false) ? 1 : 0);
  if (alarm.test == "sigma" && baselines != 1) {
    return base::invalid_argument("window", "the test sigma has one of window, first and baseline",
                                  "give one of them");
  }
  if (alarm.test == "range" && *alarm.low > *alarm.high)
    return base::invalid_argument("low", "is above high");
  return check_word("side", alarm.side, {"both", "above", "below"});
}

}  // namespace

base::Status check_alarm(const SetAlarm& alarm) {
  if (alarm.scalar.has_value() == alarm.point.has_value()) {
    return base::invalid_argument("scalar", "an alarm has either scalar or point",
                                  "give one of them");
  }
  const nlohmann::json members = protocol::params_of(alarm);
  const base::Status curve = alarm.scalar ? check_scalar(alarm, members) : check_point(alarm);
  return curve.ok() ? check_test(alarm, members) : curve;
}

std::string compressor_of(const SetAlarm& alarm) {
  for (const auto& [compressor, names] : kStatistics) {
    const bool is_its =
        alarm.statistic && std::ranges::find(names, *alarm.statistic) != names.end();
    if (is_its) return compressor;
  }
  return "projection";
}

std::string curve_name(const SetAlarm& alarm) {
  if (alarm.scalar) return *alarm.scalar;
  std::string name = alarm.statistic ? *alarm.statistic + " of " + *alarm.point
                                     : *alarm.point + " on " + *alarm.vector;
  if (alarm.statistic == kValue) name = *alarm.point;
  if (alarm.column) name += "[" + *alarm.column + "]";
  if (alarm.parameter) name += " of " + *alarm.parameter;
  if (alarm.direction == "gradient") name += " (gradient)";
  if (alarm.phase == "eval") name += " in evaluation";
  if (alarm.mean_over) name += ", " + *alarm.mean_over;
  if (alarm.prompts) name += " of " + *alarm.prompts;
  if (alarm.baseline.value_or(false)) name += ", from its baseline,";
  return name;
}

base::Result<std::vector<SetAlarm>> read_alarms(const std::string& path) {
  auto text = base::read_small_file(path);
  const auto list = text.ok() ? protocol::parse_json(text.value()) : text.error();
  if (!list.ok() || !list.value().is_array()) {
    return base::invalid_argument(
        "--alarms",
        path + (list.ok() ? " is not a list of alarms" : ": " + base::to_string(list.error())),
        "see docs/alarms.md");
  }
  std::vector<SetAlarm> alarms;
  for (const nlohmann::json& item : list.value()) {
    auto alarm = protocol::parse_alarm(item);
    base::Status checked = alarm.ok() ? check_alarm(alarm.value()) : alarm.error();
    if (checked.ok() &&
        std::ranges::find(alarms, alarm.value().name, &SetAlarm::name) != alarms.end())
      checked = base::Error{"invalid_argument", "an alarm before it has this name", "name",
                            "give each alarm another name"};
    if (!checked.ok()) {
      const base::Error& error = checked.error();
      return base::invalid_argument("--alarms",
                                    path + ", alarm " + std::to_string(alarms.size() + 1) + ": " +
                                        error.where + ": " + error.message,
                                    error.remedy);
    }
    alarms.push_back(std::move(alarm).value());
  }
  return alarms;
}

}  // namespace tt::hub
