#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tt::graph {

/// Words that stand for themselves, so that no line may give them to a value; the names of trace
/// points are among them.
bool is_reserved(std::string_view name);

/// Those of them that are called: vector, file, noise, saved, param, when, save, skip.
bool is_special_call(std::string_view name);

/// Those with which a place begins outside of the layers, and `layers`.
const std::vector<std::string>& place_words();

}  // namespace tt::graph
