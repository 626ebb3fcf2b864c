#include "src/tokenize/unicode.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>
#include <new>

namespace tt::tokenize {
namespace {

const utf8proc_uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const utf8proc_uint8_t*>(text.data());
}

bool is_ascii(char byte) { return static_cast<unsigned char>(byte) < 0x80; }

// The bytes of the character at the start, or 0 where they are not UTF-8.
std::size_t valid_bytes(std::string_view text) {
  utf8proc_int32_t value = 0;
  const auto bytes =
      utf8proc_iterate(bytes_of(text), static_cast<utf8proc_ssize_t>(text.size()), &value);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

// The bytes at the start that could begin a character, at least one.
std::size_t broken_bytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0xC2 || lead > 0xF4) return 1;
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  unsigned char least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned char largest = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  std::size_t count = 1;
  while (count < length && count < text.size()) {
    const auto byte = static_cast<unsigned char>(text[count]);
    if (byte < least || byte > largest) break;
    least = 0x80;
    largest = 0xBF;
    ++count;
  }
  return count;
}

bool is_between(char32_t value, char32_t first, char32_t last) {
  return value >= first && value <= last;
}

// Circled and squared letters: symbols that have the property Alphabetic.
bool is_alphabetic_symbol(char32_t value) {
  return is_between(value, 0x24B6, 0x24E9) || is_between(value, 0x1F130, 0x1F149) ||
         is_between(value, 0x1F150, 0x1F169) || is_between(value, 0x1F170, 0x1F189);
}

}  // namespace

Character first_character(std::string_view text) {
  if (is_ascii(text.front())) return {static_cast<char32_t>(text.front()), 1};
  utf8proc_int32_t value = 0;
  const auto bytes =
      utf8proc_iterate(bytes_of(text), static_cast<utf8proc_ssize_t>(text.size()), &value);
  return {static_cast<char32_t>(value), static_cast<std::size_t>(bytes)};
}

Character last_character(std::string_view text) {
  std::size_t begin = text.size() - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80) --begin;
  return first_character(text.substr(begin));
}

std::optional<std::size_t> find_invalid_byte(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t bytes = is_ascii(text[at]) ? 1 : valid_bytes(text.substr(at));
    if (bytes == 0) return at;
    at += bytes;
  }
  return std::nullopt;
}

std::string replace_invalid(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (const auto broken = find_invalid_byte(bytes)) {
    text.append(bytes.substr(0, *broken)).append(kReplacementCharacter);
    bytes.remove_prefix(*broken);
    bytes.remove_prefix(broken_bytes(bytes));
  }
  return text.append(bytes);
}

std::string to_nfc(std::string_view text) {
  bool all_ascii = true;
  for (const char byte : text) all_ascii = all_ascii && is_ascii(byte);
  if (all_ascii) return std::string(text);
  utf8proc_uint8_t* made = nullptr;
  const auto bytes =
      utf8proc_map(bytes_of(text), static_cast<utf8proc_ssize_t>(text.size()), &made,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(made, &std::free);
  if (bytes < 0) throw std::bad_alloc();  // the text is UTF-8, so only memory can be missing
  return {reinterpret_cast<const char*>(made), static_cast<std::size_t>(bytes)};
}

bool is_numeric(char32_t character) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(character));
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         category == UTF8PROC_CATEGORY_NO;
}

bool is_word(char32_t character) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(character))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return is_between(character, 0x200C, 0x200D) || is_alphabetic_symbol(character);
  }
}

bool is_space(char32_t character) {
  return is_between(character, 0x09, 0x0D) || character == 0x20 || character == 0x85 ||
         character == 0xA0 || character == 0x1680 || is_between(character, 0x2000, 0x200A) ||
         is_between(character, 0x2028, 0x2029) || character == 0x202F || character == 0x205F ||
         character == 0x3000;
}

}  // namespace tt::tokenize
