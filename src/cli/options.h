#pragma once

#include <CLI/CLI.hpp>

#include "tensor_tracer/config/option.h"

namespace tt::cli {

/// Adds the flags of a table to `app`. Types are checked while the command line is parsed; values
/// are checked by config::check(). Owner: the fields of the rows outlive `app`.
void add_options(CLI::App& app, const config::Options& options);

/// Adds --config FILE, a JSON object. Its keys are the flags' names with underscores. A flag
/// overrides the file.
void add_configuration_file(CLI::App& app);

}  // namespace tt::cli
