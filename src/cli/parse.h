#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tensor_tracer/base/result.h"

namespace tt::cli {

/// What parsing left to do.
struct Parsed {
  /// Set: print this and exit with 0 (--help, --version).
  std::optional<std::string> text;
};

/// Parses the words after the command's name. Error: what is wrong in one sentence; an unknown flag
/// comes with the nearest known one.
base::Result<Parsed> parse(CLI::App& app, int argc, const char* const* argv);

/// Prints what is wrong with the options of a command; its exit code.
int fail(const base::Error& error);

/// The options that were given, in a file or as flags, by their names without dashes: texts, or
/// lists of texts where an option was given several values.
nlohmann::json given_options(const CLI::App& app);

}  // namespace tt::cli
