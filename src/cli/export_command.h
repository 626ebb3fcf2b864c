#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "tensor_tracer/record/export.h"

namespace tt::cli {

/// `export FILE --to … --output …`: writes a recording in another format. Thread: one.
class ExportCommand {
 public:
  /// Adds the command to `app`, which outlives it.
  explicit ExportCommand(CLI::App& app);
  ExportCommand(const ExportCommand&) = delete;
  ExportCommand& operator=(const ExportCommand&) = delete;

  bool parsed() const { return command_->parsed(); }
  /// Returns the exit code.
  int run();

 private:
  CLI::App* command_;
  std::string file_;
  std::string to_;
  std::string layers_;
  std::string steps_;
  record::ExportOptions options_;
};

}  // namespace tt::cli
