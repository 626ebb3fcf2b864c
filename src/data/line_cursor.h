#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tt::data {

/// Gives the lines of a text one after another, and skips blank lines. Owner: the text outlives
/// the cursor. Thread: one.
class LineCursor {
 public:
  explicit LineCursor(std::string_view text) : rest_(text) {}

  /// The next line, without its end; a "\r" at its end stays. nullopt: no line is left.
  std::optional<std::string_view> next() {
    while (!rest_.empty()) {
      const std::string_view line = rest_.substr(0, rest_.find('\n'));
      rest_.remove_prefix(std::min(line.size() + 1, rest_.size()));
      ++number_;
      if (line.find_first_not_of(" \t\r") != std::string_view::npos) return line;
    }
    return std::nullopt;
  }
  /// Of the line that next() returned last, from 1; blank lines count.
  std::int64_t number() const { return number_; }
  /// That line, for a person.
  std::string place(const std::string& file) const {
    return "line " + std::to_string(number_) + " of \"" + file + "\"";
  }

 private:
  std::string_view rest_;
  std::int64_t number_ = 0;
};

}  // namespace tt::data
