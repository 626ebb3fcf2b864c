#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/tokenize/pattern.h"

namespace tt::tokenize {

/// A text in pieces, in their order. No piece is empty; parts between pieces are left out.
struct Pieces {
  std::string text;
  std::vector<Range> ranges;
  bool begins_text = false;  // the first piece is at the begin of the whole text

  std::string_view operator[](std::size_t index) const {
    return std::string_view(text).substr(ranges[index].begin,
                                         ranges[index].end - ranges[index].begin);
  }
};

/// What becomes of the matches of a pattern that splits a text.
enum class SplitBehavior : std::uint8_t {
  kRemoved,
  kIsolated,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous
};

/// Finds the matches in a piece.
using Finder = std::function<base::Status(std::string_view piece, std::vector<Range>& matches)>;

/// Splits each piece at its matches; `invert`: at what lies between them.
base::Status split(Pieces& pieces, const Finder& find, SplitBehavior behavior, bool invert = false);

/// Replaces each piece by the text that `rewrite` appends for it.
void rewrite(Pieces& pieces, const std::function<void(std::size_t index, std::string_view piece,
                                                      std::string& made)>& rewrite);

}  // namespace tt::tokenize
