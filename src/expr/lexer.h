#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/expr/diagnostic.h"
#include "tensor_tracer/expr/limits.h"

namespace tt::expr {

enum class TokenKind : std::uint8_t {
  kName,
  kInt,
  kFloat,
  kString,
  kPunctuation,
  kNewline,  // outside brackets only
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  Span span = {};
  std::string text = {};  // as written; for a string: its value
  std::int64_t integer = 0;
  double real = 0;
};

/// Splits a source text into tokens. The source must outlive it. Thread: one.
class Lexer {
 public:
  Lexer(std::string_view source, const Limits& limits) : source_(source), limits_(limits) {}

  /// All tokens; the last one is kEnd. problem() returns the problem of the text, if any.
  std::vector<Token> read_all();
  const std::optional<Problem>& problem() const { return problem_; }

 private:
  bool skip_blanks(std::vector<Token>& tokens);
  Token read_token();
  Token read_name();
  Token read_number();
  Token read_string();
  Token read_punctuation();
  bool read_escape(std::string& value);
  void count_brackets(const Token& token);
  Token fail(Span span, std::string what, std::string remedy);

  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  Span span_from(std::size_t begin) const {
    return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(at_)};
  }

  std::string_view source_;
  const Limits& limits_;
  std::size_t at_ = 0;
  std::size_t open_brackets_ = 0;
  std::optional<Problem> problem_;
};

}  // namespace tt::expr
