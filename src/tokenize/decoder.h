#pragma once

#include <string>
#include <variant>
#include <vector>

#include "src/tokenize/json_field.h"
#include "src/tokenize/normalizer.h"

namespace tt::tokenize {

/// Tokens to text. Thread: any.
class Decoder {
 public:
  /// The field `decoder`; null: a space stands between tokens.
  static Decoder read(const JsonField& field);
  std::string apply(std::vector<std::string> tokens) const;

 private:
  struct ByteFallback {};  // <0xC3> is a byte
  struct ByteLevel {};     // a token is bytes in GPT-2's alphabet
  struct Fuse {};          // one token holds the text of all
  struct Metaspace {
    std::string replacement;
    bool is_prepended = true;  // the first token has one that is not part of the text
  };
  struct Strip {  // takes at most so many characters from each end of a token
    std::string content;
    std::int64_t at_start = 0, at_end = 0;
  };
  using Tokens = std::vector<std::string>;
  using Step = std::variant<ByteFallback, ByteLevel, Fuse, Metaspace, Replacement, Strip>;

  void add(const JsonField& part);
  static void run(const ByteFallback& step, Tokens& tokens);
  static void run(const ByteLevel& step, Tokens& tokens);
  static void run(const Fuse& step, Tokens& tokens);
  static void run(const Metaspace& step, Tokens& tokens);
  static void run(const Replacement& step, Tokens& tokens);
  static void run(const Strip& step, Tokens& tokens);

  std::vector<Step> steps_;
};

}  // namespace tt::tokenize
