#include "src/hf/config_reader.h"

#include <algorithm>
#include <cmath>

namespace tt::hf {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxSize = std::int64_t{1} << 24U;

}  // namespace

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  constexpr std::size_t kMaxShown = 80;
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "…";
  return text;
}

const json* ConfigReader::find(const char* key) const {
  const auto found = config_.find(key);
  return found == config_.end() || found->is_null() ? nullptr : &*found;
}

bool ConfigReader::has(const char* key) const { return find(key) != nullptr; }

void ConfigReader::refuse(const std::string& key, const std::string& message) {
  if (!status_) return;
  status_ = base::Error{"invalid_argument", message, file_ + ": " + key,
                        "give a model that this program can compute: docs/models.md"};
}

void ConfigReader::wrong_type(const char* key, const char* expected) {
  refuse(key, "is " + shown(config_.at(key)) + ", not " + expected);
}

void ConfigReader::read_count(const char* key, const json& found, std::int64_t& value) {
  if (!found.is_number_integer() || found < 1 || found > kMaxSize)
    wrong_type(key, "a whole number from 1 to 2^24");
  else
    value = found;
}

void ConfigReader::need(const char* key, std::int64_t& value) {
  const json* const found = find(key);
  if (found == nullptr)
    refuse(key, "is missing");
  else
    read_count(key, *found, value);
}

void ConfigReader::read(const char* key, std::int64_t& value) {
  if (const json* const found = find(key)) read_count(key, *found, value);
}

void ConfigReader::read(const char* key, double& value) {
  const json* const found = find(key);
  if (found == nullptr) return;
  if (!found->is_number() || !(found->get<double>() > 0) || !std::isfinite(found->get<double>()))
    wrong_type(key, "a number above 0");
  else
    value = *found;
}

void ConfigReader::read(const char* key, bool& value) {
  const json* const found = find(key);
  if (found == nullptr) return;
  if (!found->is_boolean())
    wrong_type(key, "true or false");
  else
    value = *found;
}

void ConfigReader::read(const char* key, std::string& value) {
  const json* const found = find(key);
  if (found == nullptr) return;
  if (!found->is_string())
    wrong_type(key, "a text");
  else
    value = *found;
}

void ConfigReader::allow(const char* key, std::initializer_list<json> allowed) {
  const json* const found = find(key);
  if (found == nullptr || std::ranges::find(allowed, *found) != allowed.end()) return;
  std::string names;
  for (const json& one : allowed) names += (names.empty() ? "" : " or ") + one.dump();
  refuse(key, "is " + shown(*found) + "; this program computes " + names);
}

}  // namespace tt::hf
