#pragma once

#include "src/graph/reading.h"

namespace tt::graph {

/// For every value whether it differs from layer to layer: it says `layer`, or uses a value or a
/// save that does.
std::vector<bool> find_layered(const Program& program);

/// Whether the effect happens once for every layer of when(layers=...); `layered` is of
/// find_layered().
bool is_each(const Program& program, const Effect& effect, const std::vector<bool>& layered);

}  // namespace tt::graph
