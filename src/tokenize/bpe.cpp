#include "src/tokenize/bpe.h"

#include <algorithm>
#include <cstdio>

#include "src/tokenize/unicode.h"
#include "tensor_tracer/tokenize/tokenizer.h"

namespace tt::tokenize {
namespace {

std::uint64_t key_of(TokenId left, TokenId right) {
  return (static_cast<std::uint64_t>(left) << 32U) | static_cast<std::uint64_t>(right);
}

bool is_set(const JsonField& field) {
  const auto& json = field.json();
  return !(json.is_null() || json == "" || json == 0);
}

void refuse_unknown_options(const JsonField& field) {
  for (const char* option : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"})
    if (is_set(field[option])) field[option].refuse("this option of BPE is not known here");
}

}  // namespace

Bpe Bpe::read(const JsonField& field) {
  Bpe bpe;
  const std::string type = field["type"].is_null() ? "BPE" : field["type"].text();
  if (type != "BPE") field["type"].refuse("the model " + type + " is unknown; BPE is known");
  refuse_unknown_options(field);
  bpe.read_vocabulary(field["vocab"]);
  bpe.read_merges(field["merges"]);
  bpe.read_fallback(field);
  bpe.ignores_merges_ = field["ignore_merges"].flag(false);
  return bpe;
}

void Bpe::read_vocabulary(const JsonField& field) {
  if (!field.json().is_object()) return field.refuse("an object is needed");
  vocabulary_.reserve(field.json().size());
  for (const auto& [token, value] : field.json().items()) {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMaxTokenId)
      return field[token].refuse("an id from 0 to " + std::to_string(kMaxTokenId) + " is needed");
    const auto id = value.get<TokenId>();
    vocabulary_.emplace(token, id);
    if (static_cast<std::size_t>(id) >= tokens_.size()) tokens_.resize(id + 1);
    tokens_[id] = token;
  }
}

void Bpe::read_merges(const JsonField& field) {
  if (!field.json().is_array()) return field.refuse("a list is needed");
  merges_.reserve(field.json().size());
  for (std::size_t i = 0; i < field.json().size(); ++i) {
    const auto& one = field.json()[i];
    if (one.is_array() && one.size() == 2 && one[0].is_string() && one[1].is_string()) {
      add_merge(field, i, one[0].get_ref<const std::string&>(),
                one[1].get_ref<const std::string&>());
      continue;
    }
    const std::string_view text =
        one.is_string() ? std::string_view(one.get_ref<const std::string&>()) : "";
    const auto space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
      return field.items()[i].refuse("two tokens are needed");
    add_merge(field, i, text.substr(0, space), text.substr(space + 1));
  }
}

void Bpe::add_merge(const JsonField& field, std::size_t index, std::string_view left,
                    std::string_view right) {
  const std::string together = std::string(left) + std::string(right);
  const auto first = find(left), second = find(right), made = find(together);
  if (first && second && made) {
    merges_[key_of(*first, *second)] = {static_cast<std::int32_t>(index), *made};
    return;
  }
  const std::string missing(!first ? left : !second ? right : std::string_view(together));
  field.refuse("merge " + std::to_string(index) + ": the token \"" + missing +
               "\" is not in the vocabulary");
}

void Bpe::read_fallback(const JsonField& field) {
  fuses_unknown_ = field["fuse_unk"].flag(false);
  if (!field["unk_token"].is_null()) {
    unknown_ = find(field["unk_token"].text());
    if (!unknown_) field["unk_token"].refuse("this token is not in the vocabulary");
  }
  if (!field["byte_fallback"].flag(false)) return;
  for (unsigned byte = 0; byte < byte_tokens_.size(); ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    byte_tokens_[byte] = find(name);
  }
}

std::optional<TokenId> Bpe::find(std::string_view token) const {
  const auto found = vocabulary_.find(token);
  if (found == vocabulary_.end()) return std::nullopt;
  return found->second;
}

void Bpe::encode(std::string_view piece, std::vector<std::int64_t>& ids) const {
  if (ignores_merges_) {
    if (const auto whole = find(piece)) return ids.push_back(*whole);
  }
  thread_local Scratch scratch;
  list_symbols(piece, scratch.symbols);
  join(scratch);
  for (const Symbol& symbol : scratch.symbols)
    if (!symbol.is_joined) ids.push_back(symbol.id);
}

// The characters. One that is not in the vocabulary becomes its bytes, or the unknown token, or
// nothing. An unknown token waits for the next character of the vocabulary, not for bytes.
void Bpe::list_symbols(std::string_view piece, std::vector<Symbol>& symbols) const {
  symbols.clear();
  bool waits = false;
  const auto add_waiting = [&] {
    if (waits) symbols.push_back({*unknown_});
    waits = false;
  };
  while (!piece.empty()) {
    const auto character = piece.substr(0, first_character(piece).bytes);
    piece.remove_prefix(character.size());
    if (const auto id = find(character)) {
      add_waiting();
      symbols.push_back({*id});
    } else if (!add_bytes(character, symbols) && unknown_) {
      if (!fuses_unknown_) add_waiting();
      waits = true;
    }
  }
  add_waiting();
}

bool Bpe::add_bytes(std::string_view character, std::vector<Symbol>& symbols) const {
  const auto token_of = [this](char byte) {
    return byte_tokens_[static_cast<unsigned char>(byte)];
  };
  const auto has_token = [&](char byte) { return token_of(byte).has_value(); };
  if (!std::ranges::all_of(character, has_token)) return false;
  for (const char byte : character) symbols.push_back({*token_of(byte)});
  return true;
}

void Bpe::join(Scratch& scratch) const {
  auto& [symbols, heap] = scratch;
  const auto count = static_cast<std::int32_t>(symbols.size());
  heap.clear();
  for (std::int32_t i = 0; i < count; ++i) {
    symbols[i].previous = i - 1;
    symbols[i].next = i + 1 < count ? i + 1 : -1;
  }
  for (std::int32_t i = 0; i + 1 < count; ++i) add_candidate(scratch, i, i + 1);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    const Candidate best = heap.back();
    heap.pop_back();
    Symbol& left = symbols[best.at];
    if (left.is_joined || left.next < 0) continue;
    Symbol& right = symbols[left.next];
    const Merge* merge = find_merge(left.id, right.id);
    if (merge == nullptr || merge->made != best.made) continue;  // a neighbour was joined since
    left.id = best.made;
    left.next = right.next;
    right.is_joined = true;
    if (left.next >= 0) symbols[left.next].previous = best.at;
    if (left.previous >= 0) add_candidate(scratch, left.previous, best.at);
    if (left.next >= 0) add_candidate(scratch, best.at, left.next);
  }
}

void Bpe::add_candidate(Scratch& scratch, std::int32_t left, std::int32_t right) const {
  const Merge* merge = find_merge(scratch.symbols[left].id, scratch.symbols[right].id);
  if (merge == nullptr) return;
  scratch.heap.push_back({merge->rank, left, merge->made});
  std::push_heap(scratch.heap.begin(), scratch.heap.end());
}

const Bpe::Merge* Bpe::find_merge(TokenId left, TokenId right) const {
  const auto found = merges_.find(key_of(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

}  // namespace tt::tokenize
