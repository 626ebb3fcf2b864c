#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "tensor_tracer/base/result.h"

namespace tt::cli {

/// Parses the words after the command's name. Returns what to print before the program exits with 0
/// (--help, --version); empty: it goes on. Error: what is wrong in one sentence; an unknown flag
/// comes with the nearest known one.
base::Result<std::string> parse(CLI::App& app, int argc, const char* const* argv);

/// Prints what is wrong with the options of a command; its exit code.
int fail(const base::Error& error);

/// The options that were given, in a file or as flags, by their names without dashes: texts, or
/// lists of texts where an option was given several values.
nlohmann::json given_options(const CLI::App& app);

}  // namespace tt::cli
