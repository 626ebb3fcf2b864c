#pragma once

#include <CLI/CLI.hpp>

namespace tt::cli {

/// Gives `app`, and the commands that are added to it later, one form of --help: placeholders in
/// the usage line in small letters, and the names of flags without CLI11's defaults in braces.
void set_help_text(CLI::App& app);

}  // namespace tt::cli
