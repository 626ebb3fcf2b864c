#include <algorithm>
#include <charconv>

#include "src/expr/lexer.h"
#include "src/expr/text.h"

namespace tt::expr {
namespace {

bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// The end of the number that starts at `at`, with whatever letters hang on to it.
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
    if (c == '.' && !has_point && !has_exponent) {
      has_point = true;
    } else if ((c == '+' || c == '-') && at > begin && is_exponent(at - 1)) {
      has_exponent = true;
    } else if (!is_word(c)) {
      break;
    }
  }
  return at;
}

// Python's digits: single underscores between digits only.
bool has_sound_underscores(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') continue;
    if (i == 0 || i + 1 == text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1])) {
      return false;
    }
  }
  return true;
}

}  // namespace

Token Lexer::read_number() {
  const std::size_t begin = at_;
  at_ = end_of_number(source_, at_);
  const std::string written(source_.substr(begin, at_ - begin));
  Token token{TokenKind::kInt, span_from(begin), written, 0, 0};
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
    if (plain.size() > 1 && plain[0] == '0' && plain.find_first_not_of('0') != std::string::npos) {
      return malformed();
    }
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

}  // namespace tt::expr
