#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/points/place_table.h"

namespace tt::graph {

/// Reserved words: no line may give them to a value; the names of places
/// are among them.
bool is_reserved(std::string_view name, const points::PlaceTable& places);

/// Those of them that are called: vector, file, noise, saved, param, when, save, skip.
bool is_special_call(std::string_view name);

/// The words with which a place outside of the layers begins, and `layers`.
std::vector<std::string> place_words(const points::PlaceTable& places);

}  // namespace tt::graph
