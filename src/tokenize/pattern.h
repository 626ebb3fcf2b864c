#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/tokenize/json_field.h"
#include "tensor_tracer/base/result.h"

// PCRE2's own name for its compiled pattern.
struct pcre2_real_code_8;

namespace tt::tokenize {

/// Bytes [begin, end) of a text.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// A text to find, or a regular expression. Expressions are written for Oniguruma, the engine of
/// the library `tokenizers`, and run on PCRE2. Thread: any, also several at once.
class Pattern {
 public:
  static Pattern literal(std::string text);
  /// Error: not an expression, or one that the two engines could read differently.
  static base::Result<Pattern> expression(const std::string& expression);
  /// {"String": …} or {"Regex": …}; a problem of the file otherwise.
  static Pattern read(const JsonField& field);

  /// The matches in a text in UTF-8, left to right, without overlap. Error: the expression needs
  /// more steps or memory than its limit.
  base::Status find_all(std::string_view text, std::vector<Range>& matches) const;

 private:
  struct Release {
    void operator()(pcre2_real_code_8* code) const;
  };

  base::Status find_expression(std::string_view text, std::vector<Range>& matches) const;

  std::string literal_;
  std::unique_ptr<pcre2_real_code_8, Release> code_;  // of an expression
};

/// Oniguruma's expression in PCRE2's syntax. Error: a part that PCRE2 reads in another way.
base::Result<std::string> to_pcre2(std::string_view expression);

}  // namespace tt::tokenize
