#pragma once

#include "src/graph/reading.h"

namespace tt::graph {

/// For every value: true if it differs from layer to layer. The value then contains `layer`, or
/// uses a value or a save that contains it.
std::vector<bool> find_layered(const Program& program);

/// True if the effect happens once for every layer of when(layers=...). `layered` comes from
/// find_layered().
bool is_each(const Program& program, const Effect& effect, const std::vector<bool>& layered);

}  // namespace tt::graph
