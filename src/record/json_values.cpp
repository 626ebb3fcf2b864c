#include "src/record/json_values.h"

#include <limits>

namespace tt::record {

using nlohmann::json;

std::string text_of(const json& object, const char* member) {
  const auto value = object.find(member);
  return value != object.end() && value->is_string() ? value->get<std::string>() : "";
}

std::optional<std::uint64_t> natural(const json& object, const char* member) {
  const auto value = object.find(member);
  if (value == object.end() || !value->is_number_integer() || *value < 0) {
    return std::nullopt;
  }
  return value->get<std::uint64_t>();
}

std::optional<double> scalar_of(const json& value) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (value.is_number()) {
    return value.get<double>();
  }
  if (value == "NaN") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (value == "Infinity") {
    return kInfinity;
  }
  return value == "-Infinity" ? std::optional(-kInfinity) : std::nullopt;
}

}  // namespace tt::record
