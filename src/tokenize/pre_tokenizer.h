#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "src/tokenize/json_field.h"
#include "src/tokenize/pieces.h"

namespace tt::tokenize {

/// Splits a text into the pieces that the model turns into tokens. Thread: any.
class PreTokenizer {
 public:
  /// The field `pre_tokenizer`; null: the text is one piece.
  static PreTokenizer read(const JsonField& field);
  base::Status apply(Pieces& pieces) const;

 private:
  struct ByteLevel {
    bool adds_prefix_space = true;
    std::optional<Pattern> words;  // of GPT-2; none with `use_regex: false`
  };
  struct Digits {
    bool individual = false;
  };
  struct Metaspace {
    enum class Prepend : std::uint8_t { kAlways, kFirst, kNever };
    std::string replacement;
    Prepend prepend = Prepend::kAlways;
    bool splits = true;
  };
  struct Split {
    Pattern pattern;
    SplitBehavior behavior = SplitBehavior::kIsolated;
    bool invert = false;
  };
  using Step = std::variant<ByteLevel, Digits, Metaspace, Split>;

  void add(const JsonField& part);
  static ByteLevel read_byte_level(const JsonField& part);
  static Metaspace read_metaspace(const JsonField& part);
  static Split read_split(const JsonField& part);
  static base::Status run(const ByteLevel& step, Pieces& pieces);
  static base::Status run(const Digits& step, Pieces& pieces);
  static base::Status run(const Metaspace& step, Pieces& pieces);
  static base::Status run(const Split& step, Pieces& pieces);

  std::vector<Step> steps_;
};

}  // namespace tt::tokenize
