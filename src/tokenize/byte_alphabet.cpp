#include "src/tokenize/byte_alphabet.h"

#include <array>

#include "src/tokenize/unicode.h"

namespace tt::tokenize {
namespace {

constexpr char32_t kFirstOfOthers = 256;
constexpr std::size_t kOthers = 68;  // bytes that stand for no printable character

constexpr bool is_printable(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<char32_t, 256> of_byte{};
  std::array<char, kFirstOfOthers + kOthers> byte_of{};
  std::array<bool, kFirstOfOthers + kOthers> is_member{};
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  char32_t next = kFirstOfOthers;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char32_t character = is_printable(byte) ? byte : next++;
    alphabet.of_byte[byte] = character;
    alphabet.byte_of[character] = static_cast<char>(byte);
    alphabet.is_member[character] = true;
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

void append_as_characters(std::string_view bytes, std::string& text) {
  for (const char byte : bytes) {
    const char32_t character = kAlphabet.of_byte[static_cast<unsigned char>(byte)];
    if (character < 0x80) {
      text += static_cast<char>(character);
    } else {
      text += static_cast<char>(0xC0U | (character >> 6U));
      text += static_cast<char>(0x80U | (character & 0x3FU));
    }
  }
}

std::string to_bytes(std::string_view text) {
  std::string bytes;
  for (std::string_view rest = text; !rest.empty();) {
    const Character character = first_character(rest);
    if (character.value >= kAlphabet.is_member.size() || !kAlphabet.is_member[character.value])
      return std::string(text);
    bytes += kAlphabet.byte_of[character.value];
    rest.remove_prefix(character.bytes);
  }
  return bytes;
}

}  // namespace tt::tokenize
