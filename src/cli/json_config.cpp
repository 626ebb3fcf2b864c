#include "src/cli/json_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tt::cli {
namespace {

std::string text_of(const std::string& key, const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() || value.is_boolean()) return value.dump();
  if (value.is_object() && key == "steering_config") return value.dump();
  throw CLI::ConfigError("key \"" + key + "\" must be a number, text, true, false or a list", 2);
}

}  // namespace

std::vector<CLI::ConfigItem> JsonConfig::from_config(std::istream& input) const {
  const auto object = nlohmann::json::parse(input, nullptr, false, /*ignore_comments=*/true);
  if (!object.is_object()) throw CLI::ConfigError("the file is not one JSON object", 2);
  std::vector<CLI::ConfigItem> list;
  for (const auto& [key, value] : object.items()) {
    CLI::ConfigItem item;
    item.name = key;
    std::ranges::replace(item.name, '_', '-');
    if (value.is_array())
      for (const auto& part : value) item.inputs.push_back(text_of(key, part));
    else
      item.inputs = {text_of(key, value)};
    list.push_back(std::move(item));
  }
  return list;
}

}  // namespace tt::cli
