#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tt::base {

/// The number of single-letter edits (insert, remove, replace, swap of neighbours) from one word to
/// the other: the Damerau-Levenshtein distance in its optimal-string-alignment form. Thread: any.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The known word that a typo of `word` most probably stands for: the nearest one, letter case
/// ignored, at most a third of its length away; empty if none is that near. The first of equals
/// wins. Thread: any.
std::string nearest_word(std::string_view word, const std::vector<std::string>& known);

/// True if `word` is one of `words`, which have blanks between them. Thread: any.
bool has_word(std::string_view words, std::string_view word);

}  // namespace tt::base
