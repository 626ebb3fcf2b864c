#include "src/expr/lexer.h"

#include <algorithm>
#include <array>

#include "src/expr/text.h"

namespace tt::expr {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

// The longest first.
constexpr std::array<std::string_view, 47> kPunctuation = {
    "...", "**=", "//=", "<<=", ">>=", "**", "//", "==", "!=", "<=", ">=", "<<",
    ">>",  "->",  ":=",  "+=",  "-=",  "*=", "/=", "%=", "&=", "|=", "^=", "@=",
    "<>",  "+",   "-",   "*",   "/",   "%",  "@",  "&",  "|",  "^",  "~",  "<",
    ">",   "(",   ")",   "[",   "]",   ",",  ":",  ".",  "=",  "{",  "}"};

}  // namespace

Token Lexer::fail(Span span, std::string what, std::string remedy) {
  if (!problem_) problem_ = Problem{span, std::move(what), std::move(remedy)};
  at_ = source_.size();
  return {TokenKind::kEnd, span_from(at_), "", 0, 0};
}

std::vector<Token> Lexer::read_all() {
  std::vector<Token> tokens;
  while (skip_blanks(tokens)) {
    tokens.push_back(read_token());
    count_brackets(tokens.back());
  }
  tokens.push_back({TokenKind::kEnd, span_from(at_), "", 0, 0});
  return tokens;
}

void Lexer::count_brackets(const Token& token) {
  if (token.kind != TokenKind::kPunctuation) return;
  if (token.text == "(" || token.text == "[") ++open_brackets_;
  if ((token.text == ")" || token.text == "]") && open_brackets_ > 0) --open_brackets_;
}

// False at the end of the text.
bool Lexer::skip_blanks(std::vector<Token>& tokens) {
  for (; at_ < source_.size(); ++at_) {
    const char c = source_[at_];
    if (c == '#') {
      at_ = std::min(source_.find('\n', at_), source_.size()) - 1;
    } else if (c == '\n') {
      const auto begin = static_cast<std::uint32_t>(at_);
      if (open_brackets_ == 0) {
        tokens.push_back({TokenKind::kNewline, {begin, begin + 1}, "\n", 0, 0});
      }
    } else if (c != ' ' && c != '\t' && c != '\r' && c != '\f') {
      return true;
    }
  }
  return false;
}

Token Lexer::read_token() {
  const char c = peek();
  if (is_letter(c)) return read_name();
  if (is_digit(c) || (c == '.' && is_digit(peek(1)))) return read_number();
  if (c == '"' || c == '\'') return read_string();
  return read_punctuation();
}

Token Lexer::read_name() {
  const std::size_t begin = at_;
  while (is_letter(peek()) || is_digit(peek())) ++at_;
  Token token{TokenKind::kName, span_from(begin), std::string(source_.substr(begin, at_ - begin)),
              0, 0};
  if (token.text.find("__") != std::string::npos) {
    return fail(token.span, "the name \"" + token.text + "\" has two underscores in a row",
                "such names belong to Python's inside, which does not exist here");
  }
  if (peek() == '"' || peek() == '\'') {
    return fail(token.span,
                "a string with the prefix \"" + token.text + "\" is not part of the language",
                "write the string without a prefix");
  }
  return token;
}

Token Lexer::read_string() {
  const std::size_t begin = at_;
  const char quote = source_[at_++];
  if (peek() == quote && peek(1) == quote) {
    return fail({span_from(begin).begin, span_from(begin).begin + 3},
                "a string in triple quotes is not part of the language",
                "use one quote on each side");
  }
  std::string value;
  while (at_ < source_.size() && peek() != quote && peek() != '\n') {
    if (peek() == '\\') {
      if (!read_escape(value)) return fail(span_from(begin), "", "");
    } else {
      value += source_[at_++];
    }
  }
  if (peek() != quote || at_ >= source_.size()) {
    return fail(span_from(begin), "the string has no end",
                "close it with the quote it starts with");
  }
  ++at_;
  return {TokenKind::kString, span_from(begin), value, 0, 0};
}

bool Lexer::read_escape(std::string& value) {
  const std::size_t begin = at_++;
  switch (peek()) {
    case '\\':
      value += '\\';
      break;
    case '"':
      value += '"';
      break;
    case '\'':
      value += '\'';
      break;
    case 'n':
      value += '\n';
      break;
    case 't':
      value += '\t';
      break;
    default:
      fail({span_from(begin).begin, span_from(begin).begin + 2}, "unknown escape in a string",
           R"(there are \\, \", \', \n and \t; write \\ for a backslash)");
      return false;
  }
  ++at_;
  return true;
}

Token Lexer::read_punctuation() {
  const std::size_t begin = at_;
  const auto found = std::ranges::find_if(
      kPunctuation, [&](std::string_view text) { return source_.substr(begin).starts_with(text); });
  if (found != kPunctuation.end()) {
    at_ += found->size();
    return {TokenKind::kPunctuation, span_from(begin), std::string(*found), 0, 0};
  }
  do {
    ++at_;
  } while (at_ < source_.size() && !starts_character(source_[at_]));
  return fail(span_from(begin), "this character is not part of the language",
              "operators are + - * / // % ** @ & | ^ ~ and the comparisons; names are made of a-z, "
              "A-Z, 0-9 and _");
}

}  // namespace tt::expr
