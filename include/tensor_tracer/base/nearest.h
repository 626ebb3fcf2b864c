#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tt::base {

/// The number of single-letter edits (insert, remove, replace, swap of neighbours) that turn `a`
/// into `b`: the Damerau-Levenshtein distance in its optimal-string-alignment form. Thread: any.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The known word that `word` is most probably a typo of: the one with the smallest edit distance,
/// letter case ignored. The distance is at most a third of the word's length; empty if no word is
/// that near. Among equally near words the first one wins. Thread: any.
std::string nearest_word(std::string_view word, const std::vector<std::string>& known);

/// True if `word` is in `words`, a list with blanks between the words. Thread: any.
bool has_word(std::string_view words, std::string_view word);

}  // namespace tt::base
