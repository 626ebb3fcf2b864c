#pragma once

#include <nlohmann/json.hpp>

#include "src/intervene/in_force.h"

namespace tt::intervene {

/// The result of "intervention.check" in docs/protocol.md. `says_layer`: by effect; others are
/// described once.
nlohmann::json describe_program(const graph::Program& program, const Ready& ready,
                                const std::vector<bool>& says_layer);

}  // namespace tt::intervene
