#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tensor_tracer/base/result.h"

namespace tt::hf {

/// The first characters of a value, for an error: printable, whatever the value is.
std::string shown(const nlohmann::json& value);

/// Reads keys of a JSON file such as config.json. After an error, further reads have no effect. A
/// key with null counts as left out, as in transformers. Thread: one.
class ConfigReader {
 public:
  /// `config`: an object that outlives the reader.
  explicit ConfigReader(const nlohmann::json& config, std::string file = "config.json")
      : config_(config), file_(std::move(file)) {}

  /// The value of a key that must be there.
  void need(const char* key, std::int64_t& value);
  /// The value of a key, or what `value` holds.
  void read(const char* key, std::int64_t& value);
  void read(const char* key, double& value);
  void read(const char* key, bool& value);
  void read(const char* key, std::string& value);

  bool has(const char* key) const;
  /// Refuses the key, whose value is not one that this program computes.
  void refuse(const std::string& key, const std::string& message);
  /// Refuses a key that is there and is not one of `allowed`.
  void allow(const char* key, std::initializer_list<nlohmann::json> allowed);

  const nlohmann::json& config() const { return config_; }
  const base::Status& status() const { return status_; }

 private:
  const nlohmann::json* find(const char* key) const;
  void wrong_type(const char* key, const char* expected);
  void read_count(const char* key, const nlohmann::json& found, std::int64_t& value);

  const nlohmann::json& config_;
  const std::string file_;
  base::Status status_;
};

}  // namespace tt::hf
