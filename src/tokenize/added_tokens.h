#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/tokenize/bpe.h"
#include "src/tokenize/normalizer.h"

namespace tt::tokenize {

/// A token that is found in the text before it is split.
struct AddedToken {
  std::string content;
  TokenId id = 0;
  bool is_special = false;
  bool is_normalized = false;  // found in the normalized text
  bool is_single_word = false;
  bool strips_left = false;  // takes the white space before it
  bool strips_right = false;
};

/// A part of a text: a token, or the text between tokens.
struct Section {
  Range range;
  std::optional<TokenId> token;
};

/// The field `added_tokens`. Of several tokens at one place the longest is found. Thread: any.
class AddedTokens {
 public:
  static AddedTokens read(const JsonField& field, const Normalizer& normalizer, const Bpe& model);

  /// Divides a text into sections. `normalized`: the text is normalized, and only the tokens with
  /// is_normalized are found in it; else the text is raw, and only the other tokens are found.
  std::vector<Section> split(std::string_view text, bool normalized) const;
  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  // Texts to find, byte by byte.
  class Trie {
   public:
    void add(std::string_view text, std::size_t token);
    struct Found {
      std::size_t token = 0;
      std::size_t bytes = 0;
    };
    std::optional<Found> longest_at_start_of(std::string_view text) const;

   private:
    boost::unordered_flat_map<std::uint64_t, std::uint32_t> next_;  // (node, byte) -> node
    std::vector<std::optional<std::size_t>> token_of_node_ =
        std::vector<std::optional<std::size_t>>(1);
  };

  std::vector<AddedToken> tokens_;
  Trie raw_, normalized_;
};

}  // namespace tt::tokenize
