#include "src/tokenize/decoder.h"

#include <charconv>
#include <optional>

#include "src/tokenize/byte_alphabet.h"
#include "src/tokenize/unicode.h"

namespace tt::tokenize {
namespace {

// The byte of a token such as <0xC3>.
std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  unsigned byte = 0;
  const char* end = token.data() + 5;
  const auto [stop, error] = std::from_chars(token.data() + 3, end, byte, 16);
  if (error != std::errc() || stop != end) return std::nullopt;
  return static_cast<char>(byte);
}

std::string text_of_bytes(const std::string& bytes) {
  if (!find_invalid_byte(bytes)) return bytes;
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) text += kReplacementCharacter;
  return text;
}

std::string join(const std::vector<std::string>& tokens, std::string_view between) {
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    text.append(i == 0 ? "" : between).append(tokens[i]);
  return text;
}

std::string replace_all(std::string_view text, std::string_view old, std::string_view with) {
  std::string made;
  for (auto at = text.find(old); at != std::string_view::npos; at = text.find(old)) {
    made.append(text.substr(0, at)).append(with);
    text.remove_prefix(at + old.size());
  }
  return made.append(text);
}

}  // namespace

Decoder Decoder::read(const JsonField& field) {
  Decoder decoder;
  for (const JsonField& part : sequence_of(field, "decoders")) decoder.add(part);
  return decoder;
}

void Decoder::add(const JsonField& part) {
  const std::string type = part["type"].text();
  if (type == "ByteFallback")
    steps_.emplace_back(ByteFallback{});
  else if (type == "ByteLevel")
    steps_.emplace_back(ByteLevel{});
  else if (type == "Fuse")
    steps_.emplace_back(Fuse{});
  else if (type == "Replace")
    steps_.emplace_back(Replacement::read(part));
  else if (type == "Strip")
    steps_.emplace_back(
        Strip{part["content"].text(), part["start"].number(), part["stop"].number()});
  else if (type == "Metaspace") {
    const JsonField scheme = part["prepend_scheme"];
    const bool is_never = !scheme.is_null() && scheme.text() == "never";
    steps_.emplace_back(
        Metaspace{part["replacement"].text(), !is_never && part["add_prefix_space"].flag(true)});
  } else {
    part["type"].refuse("the decoder " + type +
                        " is unknown; known are ByteFallback, ByteLevel, Fuse, "
                        "Metaspace, Replace, Strip and Sequence");
  }
}

std::string Decoder::apply(std::vector<std::string> tokens) const {
  for (const Step& step : steps_) std::visit([&](const auto& one) { run(one, tokens); }, step);
  return join(tokens, steps_.empty() ? " " : "");
}

// Neighbouring bytes are one text; where it is not UTF-8, each byte becomes U+FFFD.
void Decoder::run(const ByteFallback& /*step*/, Tokens& tokens) {
  Tokens made;
  std::string bytes;
  const auto end_bytes = [&] {
    if (!bytes.empty()) made.push_back(text_of_bytes(bytes));
    bytes.clear();
  };
  for (std::string& token : tokens) {
    if (const auto byte = byte_of(token)) {
      bytes += *byte;
      continue;
    }
    end_bytes();
    made.push_back(std::move(token));
  }
  end_bytes();
  tokens = std::move(made);
}

void Decoder::run(const ByteLevel& /*step*/, Tokens& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) bytes += to_bytes(token);
  tokens = {replace_invalid(bytes)};
}

void Decoder::run(const Fuse& /*step*/, Tokens& tokens) { tokens = {join(tokens, "")}; }

void Decoder::run(const Metaspace& step, Tokens& tokens) {
  for (std::string& token : tokens) {
    const bool is_first = &token == &tokens.front();
    token = replace_all(token, step.replacement, is_first && step.is_prepended ? "" : " ");
  }
}

void Decoder::run(const Replacement& step, Tokens& tokens) {
  for (std::string& token : tokens)
    if (auto replaced = step.apply(token)) token = std::move(replaced).value();
}

void Decoder::run(const Strip& step, Tokens& tokens) {
  if (step.content.empty()) return;
  for (std::string& token : tokens) {
    std::string_view rest = token;
    for (std::int64_t i = 0; i < step.at_start && rest.starts_with(step.content); ++i)
      rest.remove_prefix(step.content.size());
    for (std::int64_t i = 0; i < step.at_end && rest.ends_with(step.content); ++i)
      rest.remove_suffix(step.content.size());
    token = std::string(rest);
  }
}

}  // namespace tt::tokenize
