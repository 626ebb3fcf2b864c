#include "src/expr/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "src/expr/text.h"

namespace tt::expr {
namespace {

bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

// Longest first.
constexpr std::array<std::string_view, 47> kPunctuation = {
    "...", "**=", "//=", "<<=", ">>=", "**", "//", "==", "!=", "<=", ">=", "<<",
    ">>",  "->",  ":=",  "+=",  "-=",  "*=", "/=", "%=", "&=", "|=", "^=", "@=",
    "<>",  "+",   "-",   "*",   "/",   "%",  "@",  "&",  "|",  "^",  "~",  "<",
    ">",   "(",   ")",   "[",   "]",   ",",  ":",  ".",  "=",  "{",  "}"};

// The end of the number that starts at `at`, including the letters after it.
std::size_t end_of_number(std::string_view source, std::size_t at) {
  const std::size_t begin = at;
  const auto is_exponent = [&](std::size_t i) {
    return (source[i] == 'e' || source[i] == 'E') && !source.substr(begin).starts_with("0x") &&
           !source.substr(begin).starts_with("0X");
  };
  bool has_point = false;
  bool has_exponent = false;
  for (; at < source.size(); ++at) {
    const char c = source[at];
    if (c == '.' && !has_point && !has_exponent)
      has_point = true;
    else if ((c == '+' || c == '-') && at > begin && is_exponent(at - 1))
      has_exponent = true;
    else if (!is_word(c))
      break;
  }
  return at;
}

// True for underscores as in Python's numbers: single, and only between digits.
bool has_sound_underscores(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') continue;
    if (i == 0 || i + 1 == text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1]))
      return false;
  }
  return true;
}

}  // namespace

Token Lexer::fail(Span span, std::string what, std::string remedy) {
  if (!problem_) problem_ = Problem{span, std::move(what), std::move(remedy)};
  at_ = source_.size();
  return {.kind = TokenKind::kEnd, .span = span_from(at_)};
}

std::vector<Token> Lexer::read_all() {
  std::vector<Token> tokens;
  while (skip_blanks(tokens)) {
    tokens.push_back(read_token());
    count_brackets(tokens.back());
  }
  tokens.push_back({.kind = TokenKind::kEnd, .span = span_from(at_)});
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
      if (open_brackets_ == 0)
        tokens.push_back({.kind = TokenKind::kNewline, .span = {begin, begin + 1}, .text = "\n"});
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
  while (is_word(peek())) ++at_;
  Token token{.kind = TokenKind::kName,
              .span = span_from(begin),
              .text = std::string(source_.substr(begin, at_ - begin))};
  if (token.text.find("__") != std::string::npos) {
    return fail(token.span, "the name \"" + token.text + "\" has two underscores in a row",
                "Python keeps such names for its internals, and this language has none of them");
  }
  if (peek() == '"' || peek() == '\'') {
    return fail(token.span,
                "a string with the prefix \"" + token.text + "\" is not part of the language",
                "write the string without a prefix");
  }
  return token;
}

Token Lexer::read_number() {
  const std::size_t begin = at_;
  at_ = end_of_number(source_, at_);
  const std::string written(source_.substr(begin, at_ - begin));
  Token token{.kind = TokenKind::kInt, .span = span_from(begin), .text = written};
  const auto digits = static_cast<std::size_t>(std::ranges::count_if(written, is_digit));
  if (digits > limits_.max_digits) {
    return fail(token.span,
                "the number has " + std::to_string(digits) + " digits, the limit is " +
                    std::to_string(limits_.max_digits),
                "round it");
  }
  const auto malformed = [&] {
    return fail(token.span, "\"" + written + "\" is not a number",
                "numbers are written 12, 1_000, 0.5 or 1e-3; there are no hexadecimal or complex "
                "ones, and no leading zeros");
  };
  if (!has_sound_underscores(written)) return malformed();
  std::string plain = written;
  std::erase(plain, '_');
  const char* end = plain.data() + plain.size();
  if (std::ranges::all_of(plain, is_digit)) {
    if (plain.size() > 1 && plain[0] == '0' && plain.find_first_not_of('0') != std::string::npos)
      return malformed();
    const auto parsed = std::from_chars(plain.data(), end, token.integer);
    if (parsed.ec == std::errc()) return token;
    return fail(token.span, "the integer " + written + " does not fit into 64 bits",
                "write it as a float, for example 1e20");
  }
  token.kind = TokenKind::kFloat;
  const auto parsed = std::from_chars(plain.data(), end, token.real);
  if (parsed.ec == std::errc::result_out_of_range) {
    return fail(token.span, "the number " + written + " does not fit into a float",
                "write inf or 0.0");
  }
  return parsed.ec == std::errc() && parsed.ptr == end ? token : malformed();
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
  return {.kind = TokenKind::kString, .span = span_from(begin), .text = value};
}

bool Lexer::read_escape(std::string& value) {
  const std::size_t begin = at_++;
  constexpr std::string_view kEscapes = "\\\"'nt", kValues = "\\\"'\n\t";
  const std::size_t escape = at_ < source_.size() ? kEscapes.find(peek()) : std::string_view::npos;
  if (escape == std::string_view::npos) {
    fail({span_from(begin).begin, span_from(begin).begin + 2}, "unknown escape in a string",
         R"(there are \\, \", \', \n and \t; write \\ for a backslash)");
    return false;
  }
  value += kValues[escape];
  ++at_;
  return true;
}

Token Lexer::read_punctuation() {
  const std::size_t begin = at_;
  const auto found = std::ranges::find_if(
      kPunctuation, [&](std::string_view text) { return source_.substr(begin).starts_with(text); });
  if (found != kPunctuation.end()) {
    at_ += found->size();
    return {.kind = TokenKind::kPunctuation, .span = span_from(begin), .text = std::string(*found)};
  }
  do {
    ++at_;
  } while (at_ < source_.size() && !starts_character(source_[at_]));
  return fail(span_from(begin), "this character is not part of the language",
              "operators are + - * / // % ** @ & | ^ ~ and the comparisons; names are made of a-z, "
              "A-Z, 0-9 and _");
}

}  // namespace tt::expr
