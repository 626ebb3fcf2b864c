#pragma once

#include <nlohmann/json.hpp>

#include "src/intervene/compiled_program.h"

namespace tt::intervene {

/// The result of "intervention.check" in docs/protocol.md. `says_layer`: by effect. An effect
/// without `layer` is described once.
nlohmann::json describe_program(const graph::Program& program, const Specialization& specialization,
                                const std::vector<bool>& says_layer);

}  // namespace tt::intervene
