#pragma once

#include <cstddef>
#include <string_view>

namespace tt::expr {

/// For ASCII only; _ counts as a letter.
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
inline bool is_word(char c) { return is_letter(c) || is_digit(c); }

/// The offset of the first byte that is not part of well-formed UTF-8; npos if all bytes are.
std::size_t find_bad_utf8(std::string_view text);

}  // namespace tt::expr
