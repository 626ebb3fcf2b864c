#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tt::cli {

/// The command `runs`: lists, removes and keeps recorded runs.
class RunsCommand {
 public:
  /// Adds the command to `app`, which must not outlive this object.
  explicit RunsCommand(CLI::App& app);
  bool is_given() const { return command_->parsed(); }
  /// Returns an exit code of docs/errors.md. REQUIRES: is_given().
  int run() const;

 private:
  int list() const;
  int remove() const;
  int keep() const;

  std::string folder_ = "runs";
  bool as_json_ = false;
  bool also_kept_ = false;
  std::vector<std::string> ids_;
  CLI::App* command_;
  CLI::App* remove_ = nullptr;
  CLI::App* keep_ = nullptr;
};

}  // namespace tt::cli
