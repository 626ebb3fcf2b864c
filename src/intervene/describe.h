#pragma once

#include <nlohmann/json.hpp>

#include "src/intervene/in_force.h"

namespace tt::intervene {

/// The result of "intervention.check" in docs/protocol.md.
nlohmann::json describe_program(const graph::Program& program, const Ready& ready);

}  // namespace tt::intervene
