#include "tensor_tracer/config/option.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <utility>

namespace tt::config {
namespace {

using nlohmann::json;

// %g with the fewest digits that read back as the same number.
std::string text_of_number(double value) {
  std::array<char, 32> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general);
  return {text.data(), end.ptr};
}

template <typename T>
json to_json(const T& value) {
  return value;
}

template <typename T>
json to_json(const std::optional<T>& value) {
  return value ? json(*value) : json();
}

}  // namespace

Check number(std::string complaint, std::function<bool(double)> holds) {
  return {std::move(complaint),
          [holds = std::move(holds)](const json& value) { return holds(value.get<double>()); }};
}

Check text(std::string complaint, std::function<bool(const std::string&)> holds) {
  return {std::move(complaint),
          [holds = std::move(holds)](const json& value) {
            return holds(value.get_ref<const std::string&>());
          }};
}

Check positive() {
  return number(
      "is not above 0", [](double value) { return value > 0 && std::isfinite(value); });
}

Check not_negative() {
  return number(
      "is below 0", [](double value) { return value >= 0 && std::isfinite(value); });
}

Check share() {
  return number(
      "is not in [0, 1)", [](double value) { return value >= 0 && value < 1; });
}

Check within(double least, double most) {
  return number(
      "is not in [" + text_of_number(least) + ", " + text_of_number(most) + "]",
      [=](double value) { return value >= least && value <= most; });
}

Check one_of(std::vector<std::string> names) {
  const std::string complaint = fmt::format("is not {}", fmt::join(names, " or "));
  return text(complaint, [names = std::move(names)](const std::string& value) {
    return std::ranges::find(names, value) != names.end();
  });
}

Check existing_file() {
  return text(
      "does not exist, or is no file",
      [](const std::string& path) {
        std::error_code failure;
        return std::filesystem::is_regular_file(path, failure);
      });
}

Options in_group(const std::string& group, Options options) {
  for (Option& option : options) option.group = group;
  return options;
}

Options picked(Options options, const std::vector<std::string>& flags) {
  std::erase_if(options, [&](const Option& option) {
    return std::ranges::find(flags, option.flag) == flags.end();
  });
  return options;
}

Options agreed(Options options) {
  for (Option& option : options) option.agreement = Agreement::kValue;
  return options;
}

Options fixed(Options options) {
  for (Option& option : options) option.is_fixed = true;
  return options;
}

Options needing(Needs needs, Options options) {
  for (Option& option : options) option.needs = needs;
  return options;
}

Options joined(std::initializer_list<Options> tables) {
  Options all;
  for (const Options& table : tables) all.insert(all.end(), table.begin(), table.end());
  return all;
}

std::string key_of(const Option& option) {
  std::string key = option.flag.substr(2);
  std::ranges::replace(key, '-', '_');
  return key;
}

json value_of(const Option& option) {
  return std::visit([](const auto& field) { return to_json(*field); }, option.field);
}

std::string text_of(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return text_of_number(value.get<double>());
  if (value.is_array())
    return fmt::format("{}", fmt::join(value.get<std::vector<std::string>>(), ","));
  return value.is_null() ? "" : value.dump();
}

base::Status check(const Options& options) {
  for (const Option& option : options) {
    const json value = value_of(option);
    if (value.is_null() || !option.check.holds) continue;
    for (const json& item : value.is_array() ? value : json::array({value})) {
      if (option.check.holds(item)) continue;
      const std::string quote = item.is_number() ? "" : "\"";
      return base::invalid_argument(option.flag,
                                    quote + text_of(item) + quote + ' ' + option.check.complaint);
    }
  }
  return {};
}

}  // namespace tt::config
