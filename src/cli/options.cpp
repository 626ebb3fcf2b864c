#include "src/cli/options.h"

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>

#include "src/cli/json_config.h"

namespace tt::cli {
namespace {

using config::Option;

// CLI11 reads a number beyond 64 bits as the nearest 64-bit number.
std::string outside_64_bits(const std::string& text) {
  errno = 0;
  std::strtoll(text.c_str(), nullptr, 0);
  return errno == ERANGE ? text + " is outside of -2^63 to 2^63 - 1" : "";
}

CLI::Option* add(CLI::App& app, const Option& row, bool* field) {
  return app.add_flag(row.flag, *field, row.help);
}

// What --help prints for the value.
template <typename Value>
const char* type_name() {
  if constexpr (std::is_same_v<Value, bool>) return "ON|OFF";
  if constexpr (std::is_integral_v<Value>) return "INT";
  return std::is_floating_point_v<Value> ? "NUMBER" : "TEXT";
}

template <typename Value>
struct ValueOf {
  using Type = Value;
};
template <typename Value>
struct ValueOf<std::optional<Value>> {
  using Type = Value;
};

// For an optional field, CLI11's add_flag() would make a counter that begins at 0.
CLI::Option* add(CLI::App& app, const Option& row, config::Switch field) {
  return app.add_flag_function(
      row.flag + ",!--no-" + row.flag.substr(2), [field](std::int64_t sum) { *field = sum > 0; },
      row.help);
}

template <typename Field>
CLI::Option* add(CLI::App& app, const Option& row, Field field) {
  using Value = std::remove_cvref_t<decltype(*field)>;
  CLI::Option* const added = app.add_option(row.flag, *field, row.help);
  added->type_name(type_name<typename ValueOf<Value>::Type>());
  if constexpr (std::is_arithmetic_v<Value> || std::is_same_v<Value, std::string>)
    added->capture_default_str();
  if constexpr (std::is_same_v<Value, std::int64_t>)
    added->check(CLI::Validator(outside_64_bits, ""));
  if constexpr (std::is_same_v<Field, config::Bytes>) {
    added->transform(CLI::AsSizeValue(false).description(""));
    added->type_name("SIZE");
  }
  if constexpr (std::is_same_v<Field, config::Commas>) added->delimiter(',');
  return added;
}

}  // namespace

void add_options(CLI::App& app, const config::Options& options) {
  for (const Option& row : options) {
    CLI::Option* const added =
        std::visit([&](const auto& field) { return add(app, row, field); }, row.field);
    if (!row.group.empty()) added->group(row.group);
  }
}

void add_configuration_file(CLI::App& app) {
  app.set_config("--config", "", "JSON file of options; flags on the command line win")
      ->type_name("FILE");
  app.config_formatter(std::make_shared<JsonConfig>());
  app.allow_config_extras(CLI::config_extras_mode::error);
}

}  // namespace tt::cli
