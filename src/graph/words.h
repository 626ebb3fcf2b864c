#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/points/place_table.h"

namespace tt::graph {

/// True for reserved words: no line may use such a word as the name of a value. The names of places
/// are reserved too.
bool is_reserved(std::string_view name, const points::PlaceTable& places);

/// True for the reserved words that are called: vector, file, noise, saved, param, when, save,
/// skip.
/// True for final_norm and output_layer, which are called like functions: parts of the model.
bool is_module(std::string_view name);
bool is_special_call(std::string_view name);

/// The words that may begin a place outside of the layers, and `layers`.
std::vector<std::string> place_words(const points::PlaceTable& places);

}  // namespace tt::graph
