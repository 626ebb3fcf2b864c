#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

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
  std::vector<int> listen_fds;
  int ready_fd = -1;
  int alive_fd = -1;
  bool linger = false;
};

/// The flags that both commands have.
void add_common_flags(CLI::App& command, HubFlags& flags);

/// The same flags as words, for the `serve` that `supervise` starts.
std::vector<std::string> words_of(const HubFlags& flags);

}  // namespace tt::cli
