#include <cmath>

#include "src/graph/steps.h"

namespace tt::graph {
namespace {

using expr::kNoNode;
using expr::NodeId;

constexpr std::int64_t kMaxRampSteps = 1'000'000'000'000;

const Signature kParam{
    "param(4.0, min=0.0, max=20.0), or param(4.0, ramp_from=0.0, ramp_steps=100)",
    {"value", "min", "max", "ramp_from", "ramp_steps"},
    1,
    1};

bool read_number(Reading& reading, NodeId id, std::optional<double>& number) {
  if (id == kNoNode) return true;
  number = reading.number(id);
  return number ||
         reading.fail(reading.node(id).span, "the arguments of a parameter are plain numbers",
                      "write " + std::string(kParam.usage));
}

bool read_ramp(Reading& reading, NodeId from, NodeId steps, Parameter& parameter) {
  std::optional<double> ramp_from = 0.0;
  if (steps == kNoNode) {
    return from == kNoNode ||
           reading.fail(reading.node(from).span, "ramp_from says nothing without ramp_steps",
                        "write ramp_steps=100 too");
  }
  const auto count = reading.integer(steps);
  if (!count || *count < 1 || *count > kMaxRampSteps) {
    return reading.fail(reading.node(steps).span, "ramp_steps is a whole number from 1 on",
                        "write ramp_steps=100");
  }
  if (!read_number(reading, from, ramp_from)) return false;
  if (!parameter.admits(*ramp_from)) {
    return reading.fail(reading.node(from == kNoNode ? steps : from).span,
                        "the ramp begins outside of min and max", "write a ramp_from between them");
  }
  parameter.ramp_from = *ramp_from;
  parameter.ramp_steps = *count;
  return true;
}

}  // namespace

bool Parameter::admits(double number) const {
  return std::isfinite(number) && (!min || number >= *min) && (!max || number <= *max);
}

double Parameter::in_step(double target, std::int64_t n) const {
  if (n >= ramp_steps) return target;
  const double done = static_cast<double>(n) / static_cast<double>(ramp_steps);
  return ramp_from + (target - ramp_from) * done;
}

bool read_parameter(Reading& reading, NodeId call, Parameter& parameter) {
  const auto given = read_arguments(reading, call, kParam);
  if (given.empty()) return false;
  std::optional<double> value;
  if (!read_number(reading, given[0], value) || !read_number(reading, given[1], parameter.min) ||
      !read_number(reading, given[2], parameter.max))
    return false;
  if (parameter.min && parameter.max && *parameter.min > *parameter.max)
    return reading.fail(reading.node(given[1]).span, "min is above max", "exchange them");
  if (!parameter.admits(*value)) {
    return reading.fail(reading.node(given[0]).span, "the value is outside of min and max",
                        "write a number between them");
  }
  parameter.value = *value;
  return read_ramp(reading, given[3], given[4], parameter);
}

}  // namespace tt::graph
