#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "tensor_tracer/base/result.h"

namespace tt::cli {

/// Parses the words after the command's name. Returns the text to print before the program exits
/// with 0 (--help, --version); empty: the program continues. The error states the fault in one
/// sentence; for an unknown flag it adds the nearest known flag.
base::Result<std::string> parse(CLI::App& app, int argc, const char* const* argv);

/// Prints the error in a command's options and returns the exit code.
int fail(const base::Error& error);
/// Prints an error of a command and returns the exit code of its kind. A text from outside may be
/// in it.
int report(const base::Error& error);

/// The options that were given, in a file or as flags, by their names without dashes. A value is a
/// text, or a list of texts if the option was given several values.
nlohmann::json given_options(const CLI::App& app);

}  // namespace tt::cli
