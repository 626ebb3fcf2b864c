#include "src/tokenize/pre_tokenizer.h"

#include <map>

#include "src/tokenize/byte_alphabet.h"
#include "src/tokenize/unicode.h"

namespace tt::tokenize {
namespace {

// How GPT-2 splits a text (its encoder.py).
constexpr const char* kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

base::Status find_digits(std::string_view text, std::vector<Range>& matches) {
  matches.clear();
  for (std::size_t at = 0; at < text.size();) {
    const Character character = first_character(text.substr(at));
    if (is_numeric(character.value)) matches.push_back({at, at + character.bytes});
    at += character.bytes;
  }
  return {};
}

Finder finder(const Pattern& pattern) {
  return [&pattern](std::string_view text, std::vector<Range>& matches) {
    return pattern.find_all(text, matches);
  };
}

SplitBehavior read_behavior(const JsonField& field) {
  static const std::map<std::string, SplitBehavior> names{
      {"Removed", SplitBehavior::kRemoved},
      {"Isolated", SplitBehavior::kIsolated},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous}};
  const auto found = names.find(field.text());
  if (found != names.end()) return found->second;
  field.refuse("the behavior is unknown");
  return SplitBehavior::kIsolated;
}

}  // namespace

PreTokenizer PreTokenizer::read(const JsonField& field) {
  PreTokenizer pre_tokenizer;
  for (const JsonField& part : sequence_of(field, "pretokenizers")) pre_tokenizer.add(part);
  return pre_tokenizer;
}

void PreTokenizer::add(const JsonField& part) {
  const std::string type = part["type"].text();
  if (type == "ByteLevel")
    steps_.emplace_back(read_byte_level(part));
  else if (type == "Digits")
    steps_.emplace_back(Digits{part["individual_digits"].flag(false)});
  else if (type == "Metaspace")
    steps_.emplace_back(read_metaspace(part));
  else if (type == "Split")
    steps_.emplace_back(read_split(part));
  else
    part["type"].refuse("the pre-tokenizer " + type +
                        " is unknown; known are ByteLevel, Digits, Metaspace, Split and Sequence");
}

PreTokenizer::ByteLevel PreTokenizer::read_byte_level(const JsonField& part) {
  ByteLevel step{part["add_prefix_space"].flag(true), {}};
  if (part["use_regex"].flag(true)) step.words = Pattern::expression(kGpt2Words).value();
  return step;
}

PreTokenizer::Metaspace PreTokenizer::read_metaspace(const JsonField& part) {
  using Prepend = Metaspace::Prepend;
  Metaspace step{part["replacement"].text(), Prepend::kAlways, part["split"].flag(true)};
  const JsonField scheme = part["prepend_scheme"];
  const std::string name = scheme.is_null() ? "always" : scheme.text();
  if (name == "never" || !part["add_prefix_space"].flag(true))
    step.prepend = Prepend::kNever;
  else if (name == "first")
    step.prepend = Prepend::kFirst;
  else if (name != "always")
    scheme.refuse("the scheme is unknown");
  return step;
}

PreTokenizer::Split PreTokenizer::read_split(const JsonField& part) {
  return {Pattern::read(part["pattern"]), read_behavior(part["behavior"]),
          part["invert"].flag(false)};
}

base::Status PreTokenizer::apply(Pieces& pieces) const {
  for (const Step& step : steps_) {
    auto done = std::visit([&](const auto& one) { return run(one, pieces); }, step);
    if (!done) return done;
  }
  return {};
}

base::Status PreTokenizer::run(const ByteLevel& step, Pieces& pieces) {
  if (step.adds_prefix_space) {
    rewrite(
        pieces,
        [](std::size_t /*index*/, std::string_view piece, std::string& made) {
          made.append(piece.starts_with(' ') ? "" : " ").append(piece);
        });
  }
  if (step.words)
    if (auto done = split(pieces, finder(*step.words), SplitBehavior::kIsolated); !done)
      return done;
  rewrite(pieces, [](std::size_t /*index*/, std::string_view piece, std::string& made) {
    append_as_characters(piece, made);
  });
  return {};
}

base::Status PreTokenizer::run(const Digits& step, Pieces& pieces) {
  return split(pieces, find_digits,
               step.individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
}

base::Status PreTokenizer::run(const Metaspace& step, Pieces& pieces) {
  using Prepend = Metaspace::Prepend;
  rewrite(pieces, [&](std::size_t index, std::string_view piece, std::string& made) {
    const bool is_marked = piece.starts_with(' ') || piece.starts_with(step.replacement);
    const bool wants_mark = step.prepend == Prepend::kAlways ||
                            (step.prepend == Prepend::kFirst && index == 0 && pieces.begins_text);
    if (wants_mark && !is_marked) made += step.replacement;
    for (const char byte : piece)
      if (byte == ' ')
        made += step.replacement;
      else
        made += byte;
  });
  if (!step.splits) return {};
  const Pattern mark = Pattern::literal(step.replacement);
  return split(pieces, finder(mark), SplitBehavior::kMergedWithNext);
}

base::Status PreTokenizer::run(const Split& step, Pieces& pieces) {
  return split(pieces, finder(step.pattern), step.behavior, step.invert);
}

}  // namespace tt::tokenize
