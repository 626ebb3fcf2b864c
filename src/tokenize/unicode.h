#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "tensor_tracer/tokenize/utf8.h"

/// UTF-8 and properties of characters. Thread: any.
namespace tt::tokenize {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

struct Character {
  char32_t value = 0;
  std::size_t bytes = 0;
};

/// The first character. REQUIRES: a text in UTF-8 that is not empty.
Character first_character(std::string_view text);
/// The last character. REQUIRES: as above.
Character last_character(std::string_view text);

/// The offset of the first byte that is not UTF-8.
std::optional<std::size_t> find_invalid_byte(std::string_view text);

/// Normalization form C. REQUIRES: UTF-8.
std::string to_nfc(std::string_view text);

/// General category N, as Rust's char::is_numeric.
bool is_numeric(char32_t character);
/// \w of Rust's regular expressions (Unicode TR 18, annex C).
bool is_word(char32_t character);
/// Property White_Space.
bool is_space(char32_t character);

}  // namespace tt::tokenize
