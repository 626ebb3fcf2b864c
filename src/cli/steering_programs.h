#pragma once

#include <vector>

#include "src/cli/intervention_setup.h"
#include "tensor_tracer/base/result.h"
#include "tensor_tracer/config/train_config.h"

namespace tt::cli {

/// Replaces --steering-config by the flag that says the same, and its file of a vector by
/// --tensor-tracer-vectors. Error: the form is wrong, or the run's vectors are in another place.
/// Global rank 0.
base::Status take_steering_config(config::TrainConfig& config);

/// The programs of --steer, --ablate and --cap, in this order. Error: there is no such vector or
/// layer, or a row that must give a direction is zero. REQUIRES: take_steering_config(). Global
/// rank 0.
base::Result<std::vector<ProgramFile>> make_steering_programs(const config::TrainConfig& config,
                                                              const intervene::Context& context);

}  // namespace tt::cli
