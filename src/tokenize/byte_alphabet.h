#pragma once

#include <optional>
#include <string>
#include <string_view>

/// GPT-2's alphabet: a printable character for each byte ("bytes_to_unicode" of its encoder.py).
/// Thread: any.
namespace tt::tokenize {

/// Appends the character of each byte.
void append_as_characters(std::string_view bytes, std::string& text);

/// The bytes of a text in this alphabet, or the text itself where it has other characters.
std::string to_bytes(std::string_view text);

}  // namespace tt::tokenize
