#pragma once

#include <CLI/CLI.hpp>
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

}  // namespace tt::cli
