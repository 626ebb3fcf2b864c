#pragma once

#include <CLI/CLI.hpp>
#include <istream>
#include <string>
#include <vector>

namespace tt::cli {

/// Reads CLI11's configuration from one flat JSON object; a key is a flag's name with underscores.
class JsonConfig : public CLI::Config {
 public:
  std::string to_config(const CLI::App* app, bool default_also, bool write_description,
                        std::string prefix) const override;
  /// Throws CLI::ConfigError, naming the line or the key.
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override;
};

}  // namespace tt::cli
