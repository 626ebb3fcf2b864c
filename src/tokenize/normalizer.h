#pragma once

#include <string>
#include <variant>
#include <vector>

#include "src/tokenize/json_field.h"
#include "src/tokenize/pattern.h"

namespace tt::tokenize {

/// How many times longer a text of 1 KiB or more can become in one file; has a test.
inline constexpr std::size_t kMaxGrowth = 16;

/// Puts a text in the place of each match.
struct Replacement {
  Pattern pattern;
  std::string content;

  static Replacement read(const JsonField& field);
  /// Error: as Pattern::find_all(), or the text would become many times longer (kMaxGrowth).
  base::Result<std::string> apply(std::string_view text) const;
};

/// What is done with a text before it is split. Thread: any.
class Normalizer {
 public:
  /// The field `normalizer`; null: nothing is done.
  static Normalizer read(const JsonField& field);
  base::Result<std::string> apply(std::string_view text) const;

 private:
  struct Nfc {};
  struct Prepend {
    std::string text;
  };
  using Step = std::variant<Nfc, Prepend, Replacement>;

  void add(const JsonField& part);

  std::vector<Step> steps_;
};

}  // namespace tt::tokenize
