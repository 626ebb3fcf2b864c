#pragma once

#include <CLI/CLI.hpp>
#include <istream>
#include <string>
#include <vector>

namespace tt::cli {

/// Reads CLI11's configuration from one JSON object. A key is a flag's name with underscores. The
/// object of "steering_config" stands for its JSON text.
class JsonConfig : public CLI::Config {
 public:
  /// Returns an empty text: this class writes no configuration.
  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return {}; }
  /// Throws CLI::ConfigError, which names the line or the key.
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override;
};

}  // namespace tt::cli
