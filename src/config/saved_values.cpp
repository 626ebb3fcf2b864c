#include "tensor_tracer/config/saved_values.h"

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tt::config {
namespace {

using nlohmann::json;

// Each returns false for a value of another type or out of range.
bool read_value(const json& value, bool& out) {
  if (value.is_boolean()) out = value;
  return value.is_boolean();
}

template <std::integral Number>
bool read_value(const json& value, Number& out) {
  if (!value.is_number_integer()) return false;
  const bool fits = value.is_number_unsigned() ? std::in_range<Number>(value.get<std::uint64_t>())
                                               : std::in_range<Number>(value.get<std::int64_t>());
  if (fits) out = value;
  return fits;
}

bool read_value(const json& value, double& out) {
  if (value.is_number()) out = value;
  return value.is_number();
}

bool read_value(const json& value, std::string& out) {
  if (value.is_string()) out = value;
  return value.is_string();
}

bool read_value(const json& value, std::vector<std::string>& out) {
  if (!value.is_array()) return false;
  std::vector<std::string> texts;
  for (const json& one : value)
    if (!read_value(one, texts.emplace_back())) return false;
  out = std::move(texts);
  return true;
}

template <typename T>
bool read_value(const json& value, std::optional<T>& out) {
  T read{};
  if (!value.is_null() && !read_value(value, read)) return false;
  out = value.is_null() ? std::nullopt : std::optional(read);
  return true;
}

}  // namespace

base::Status set_values(const Options& options, const json& values) {
  for (const Option& option : options) {
    const auto found = values.find(option.flag);
    if (found == values.end()) continue;
    const bool is_read =
        std::visit([&](const auto& field) { return read_value(*found, *field); }, option.field);
    if (!is_read)
      return base::invalid_argument(option.flag, "has a value of another type or out of range");
  }
  return {};
}

}  // namespace tt::config
