#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/hub/legacy/dialect.h"

namespace tt::hub::dialect {

/// One of MegaScope's three perturbations, written as a program (docs/intervention_graph.md).
struct Disturbance {
  std::string name;     // of the program: "megascope weight"
  std::string program;  // the program's text; empty: off
};

/// The disturbances that `disturbance_configs` of a `run_training_step` asks for: all three, on or
/// off. Tensor Tracer's dialect has no disturbances. An error names a switch that is on and has no
/// meaning, or a `_fn` or `_coef` that is missing or wrong.
base::Result<std::vector<Disturbance>> read_disturbances(Dialect dialect,
                                                         const nlohmann::json& message);

}  // namespace tt::hub::dialect
