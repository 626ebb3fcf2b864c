#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/config/alarm_config.h"
#include "tensor_tracer/config/option.h"
#include "tensor_tracer/config/recording_config.h"

namespace tt::config {

/// Settings of a hub. A hub that a user starts reads them from flags. A run's hub reads them from
/// run.json (docs/protocol.md, "Files and the end"), also when it is started again. The field
/// `idle_seconds` is the flag --idle-seconds and the key "idle_seconds". No setting is a token.
struct HubConfig {
  std::string run_id;  // 16 hex digits; empty: as in hub.json, or new
  int port = 8765;     // 0: the next free one from 8765
  std::string bind;    // an address besides the loopback addresses; empty: none
  std::string auth = "token";
  std::vector<std::string> allow_host;
  std::vector<std::string> allow_origin;
  std::string log_format = "json";
  std::vector<std::string> compare;
  std::optional<bool> print_url;  // print the URL with its token; nothing: only on a terminal
  std::string page_dir;           // empty: the built page beside the program
  double lease_seconds = 30;
  double idle_seconds = 30;
  double ready_timeout = 300;  // seconds
  RecordingConfig recording;
  AlarmConfig alarm;
  // run.json only:
  bool linger = false;  // the hub stays when the run has ended
  int version = 1;
};

/// The options of every hub. The rows point into `config`, which must outlive them.
Options viewer_options(HubConfig& config);

/// More options for a run's hub; a replay does not have them.
Options run_options(HubConfig& config);

/// All keys of run.json.
Options run_file_options(HubConfig& config);

std::string run_file_path(const std::string& run_dir);

/// Replaces run.json as a whole, with mode 0600. REQUIRES: this process has locked the directory.
base::Status write_run_file(const std::string& run_dir, HubConfig config);

}  // namespace tt::config
