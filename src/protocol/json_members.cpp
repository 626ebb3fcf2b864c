#include "tensor_tracer/protocol/json_members.h"

#include <limits>

namespace tt::protocol {

using nlohmann::json;

const json& member(const json& object, std::string_view name) {
  static const json null;
  if (!object.is_object()) return null;
  const auto found = object.find(name);
  return found == object.end() ? null : *found;
}

std::string text_of(const json& object, std::string_view name) {
  const json& text = member(object, name);
  return text.is_string() ? text.get<std::string>() : "";
}

std::optional<std::uint64_t> natural(const json& object, std::string_view name) {
  const json& number = member(object, name);
  const bool is_natural =
      number.is_number_unsigned() || (number.is_number_integer() && number >= 0);
  return is_natural ? std::optional(number.get<std::uint64_t>()) : std::nullopt;
}

std::optional<double> number_of(const json& value) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (value.is_number()) return value.get<double>();
  if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (value == "Infinity") return kInfinity;
  return value == "-Infinity" ? std::optional(-kInfinity) : std::nullopt;
}

}  // namespace tt::protocol
