#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/base/result.h"

namespace tt::tokenize {

/// The first problem of a file. Reading goes on after it, with empty values.
using Problem = std::optional<base::Error>;

/// A value of a JSON file and its path. A wrong type is kept as the file's problem, and the value
/// is empty. The file and the problem outlive the field. Thread: one at a time.
class JsonField {
 public:
  JsonField(const nlohmann::json& value, std::string path, Problem& problem)
      : value_(&value), path_(std::move(path)), problem_(&problem) {}

  /// Null if it is missing.
  JsonField operator[](const std::string& key) const;
  bool is_null() const { return value_->is_null(); }

  std::string text() const;
  /// `fallback` where the field is missing.
  bool flag(bool fallback) const;
  /// From 0 to kMaxTokenId.
  std::int64_t number() const;
  /// Of a list.
  std::vector<JsonField> items() const;

  const nlohmann::json& json() const { return *value_; }
  const std::string& path() const { return path_; }
  /// Keeps this as the file's problem, unless it has one already.
  void refuse(const std::string& message) const;

 private:
  const nlohmann::json* value_;
  std::string path_;
  Problem* problem_;
};

/// A part of the file, or the parts of its Sequence, in their order. Missing: none. `list_key` is
/// the Sequence's field, for example "pretokenizers".
std::vector<JsonField> sequence_of(const JsonField& part, const std::string& list_key);

}  // namespace tt::tokenize
