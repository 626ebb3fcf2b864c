#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "src/cli/recording_flags.h"
#include "tensor_tracer/hub/access.h"
#include "tensor_tracer/hub/event_log.h"

namespace tt::cli {

/// What `serve` and `supervise` of tensor-tracer-hub are told.
struct HubFlags {
  std::string run_dir;
  std::string run_id;
  std::string page_dir;
  int port = 8765;
  hub::Access access;
  hub::LogFormat log_format = hub::LogFormat::kJson;
  double lease_seconds = 30;
  double idle_seconds = 30;
  double ready_seconds = 300;
  std::optional<bool> print_url;  // with its token; nothing: on a terminal
  std::vector<int> listen_fds;
  bool restarted = false;  // the run has had a hub before
  int ready_fd = -1;
  int alive_fd = -1;
  bool linger = false;
  RecordingFlags recording;
  hub::ReplayOptions replay;  // of the command replay
  std::vector<std::string> compare;
};

/// The flags of all commands that serve viewers, but for the run's directory.
void add_common_flags(CLI::App& command, HubFlags& flags);
/// Of `serve` and `supervise`.
void add_run_flags(CLI::App& command, HubFlags& flags);

/// The same flags as words, for the `serve` that `supervise` starts.
std::vector<std::string> words_of(const HubFlags& flags);

}  // namespace tt::cli
