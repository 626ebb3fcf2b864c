#include "src/tokenize/added_tokens.h"

#include <algorithm>

#include "src/tokenize/unicode.h"

namespace tt::tokenize {
namespace {

AddedToken read_token(const JsonField& field, const Bpe& model) {
  AddedToken token{.content = field["content"].text(),
                   .id = static_cast<TokenId>(field["id"].number()),
                   .is_special = field["special"].flag(false),
                   .is_normalized = field["normalized"].flag(false),
                   .is_single_word = field["single_word"].flag(false),
                   .strips_left = field["lstrip"].flag(false),
                   .strips_right = field["rstrip"].flag(false)};
  const auto id = model.find(token.content);
  if (id && *id != token.id) {
    field["id"].refuse("\"" + token.content + "\" has the id " + std::to_string(*id) +
                       " in the vocabulary");
  }
  return token;
}

bool is_inside_word(const Range& match, std::string_view text) {
  const auto before = text.substr(0, match.begin), after = text.substr(match.end);
  return (!before.empty() && is_word(last_character(before).value)) ||
         (!after.empty() && is_word(first_character(after).value));
}

// The match with white space that the token takes; `least_begin` is where the section before ends.
Range with_spaces(const AddedToken& token, Range match, std::string_view text,
                  std::size_t least_begin) {
  if (token.strips_left) {
    std::size_t begin = match.begin;
    while (begin > 0) {
      const Character character = last_character(text.substr(0, begin));
      if (!is_space(character.value)) break;
      begin -= character.bytes;
    }
    match.begin = std::max(begin, least_begin);
  }
  while (token.strips_right && match.end < text.size()) {
    const Character character = first_character(text.substr(match.end));
    if (!is_space(character.value)) break;
    match.end += character.bytes;
  }
  return match;
}

}  // namespace

AddedTokens AddedTokens::read(const JsonField& field, const Normalizer& normalizer,
                              const Bpe& model) {
  AddedTokens added;
  if (field.is_null()) return added;
  for (const JsonField& one : field.items()) {
    const AddedToken token = read_token(one, model);
    if (token.content.empty()) continue;
    if (token.is_normalized) {
      const auto content = normalizer.apply(token.content);
      if (!content)
        one["content"].refuse(content.error().message);
      else
        added.normalized_.add(content.value(), added.tokens_.size());
    } else {
      added.raw_.add(token.content, added.tokens_.size());
    }
    added.tokens_.push_back(token);
  }
  return added;
}

std::vector<Section> AddedTokens::split(std::string_view text, bool normalized) const {
  const Trie& trie = normalized ? normalized_ : raw_;
  std::vector<Section> sections;
  std::size_t end = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto found = trie.longest_at_start_of(text.substr(at));
    if (!found) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[found->token];
    const Range match{at, at + found->bytes};
    at = match.end;
    if (token.is_single_word && is_inside_word(match, text)) continue;
    const Range taken = with_spaces(token, match, text, end);
    if (end < taken.begin) sections.push_back({{end, taken.begin}, std::nullopt});
    sections.push_back({taken, token.id});
    end = taken.end;
  }
  if (end < text.size()) sections.push_back({{end, text.size()}, std::nullopt});
  return sections;
}

void AddedTokens::Trie::add(std::string_view text, std::size_t token) {
  std::uint32_t node = 0;
  for (const char byte : text) {
    const auto key = (std::uint64_t{node} << 8U) | static_cast<unsigned char>(byte);
    const auto [entry, is_new] =
        next_.emplace(key, static_cast<std::uint32_t>(token_of_node_.size()));
    if (is_new) token_of_node_.emplace_back();
    node = entry->second;
  }
  if (!token_of_node_[node]) token_of_node_[node] = token;
}

std::optional<AddedTokens::Trie::Found> AddedTokens::Trie::longest_at_start_of(
    std::string_view text) const {
  std::optional<Found> found;
  std::uint32_t node = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto next = next_.find((std::uint64_t{node} << 8U) | static_cast<unsigned char>(text[i]));
    if (next == next_.end()) break;
    node = next->second;
    if (token_of_node_[node]) found = Found{*token_of_node_[node], i + 1};
  }
  return found;
}

}  // namespace tt::tokenize
