#pragma once

#include <CLI/CLI.hpp>

#include "tensor_tracer/config/train_config.h"

namespace tt::cli {

/// Adds every flag of `train` to `app`, bound to the fields of `config`, and --config FILE, a JSON
/// object whose keys are the flags' names with underscores. Flags win over the file. Owner: config
/// outlives app.
void add_train_options(CLI::App& app, config::TrainConfig& config);

}  // namespace tt::cli
