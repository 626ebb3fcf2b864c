#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/tokenize/json_field.h"

namespace tt::tokenize {

using TokenId = std::int32_t;

/// Byte pair encoding (Sennrich et al. 2016): a piece of text to tokens, by joining neighbours.
/// Ties and tokens that are not in the vocabulary are treated as the library `tokenizers` does.
/// Thread: any.
class Bpe {
 public:
  /// The field `model`.
  static Bpe read(const JsonField& field);

  /// Appends the tokens of a piece.
  void encode(std::string_view piece, std::vector<std::int64_t>& ids) const;

  std::optional<TokenId> find(std::string_view token) const;
  /// By id; empty if no token has the id.
  const std::vector<std::string>& tokens() const { return tokens_; }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): the library's name
  };
  using Vocabulary = boost::unordered_flat_map<std::string, TokenId, Hash, std::equal_to<>>;
  struct Merge {
    std::int32_t rank = 0;
    TokenId made = 0;
  };
  struct Symbol {
    TokenId id = 0;
    std::int32_t previous = -1;
    std::int32_t next = -1;
    bool is_joined = false;  // it went into the symbol before it
  };
  // A pair of neighbours that can be joined; the lowest rank comes first, then the leftmost.
  struct Candidate {
    std::int32_t rank = 0;
    std::int32_t at = 0;
    TokenId made = 0;
    bool operator<(const Candidate& other) const {  // for a heap whose top is the first
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  struct Scratch {
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
  };

  void read_vocabulary(const JsonField& field);
  void read_merges(const JsonField& field);
  void add_merge(const JsonField& field, std::size_t index, std::string_view left,
                 std::string_view right);
  void read_fallback(const JsonField& field);

  void list_symbols(std::string_view piece, std::vector<Symbol>& symbols) const;
  bool add_bytes(std::string_view character, std::vector<Symbol>& symbols) const;
  void join(Scratch& scratch) const;
  void add_candidate(Scratch& scratch, std::int32_t left, std::int32_t right) const;
  const Merge* find_merge(TokenId left, TokenId right) const;

  Vocabulary vocabulary_;
  std::vector<std::string> tokens_;
  boost::unordered_flat_map<std::uint64_t, Merge> merges_;
  std::array<std::optional<TokenId>, 256> byte_tokens_;  // <0x00> … with `byte_fallback`
  std::optional<TokenId> unknown_;
  bool fuses_unknown_ = false;
  bool ignores_merges_ = false;
};

}  // namespace tt::tokenize
