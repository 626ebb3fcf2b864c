#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tensor_tracer/config/option.h"

namespace tt::config {

/// Alarms of a run: docs/alarms.md.
struct AlarmConfig {
  std::string alarms;                      // JSON file; empty: none at the start
  std::string alarm_webhook;               // empty: none
  std::vector<std::string> alarm_command;  // program and arguments; empty: none
  double alarm_pause_timeout = 1800;       // seconds
  std::uint64_t spike_recorder = 0;        // steps; 0: off
};

/// Options whose values viewers must not see: they may hold tokens.
inline constexpr std::array<const char*, 2> kPrivateOptions = {"alarm-webhook", "alarm-command"};

/// The options of `tensor-tracer train` and of a run's hub. The rows point into `config`, which
/// must outlive them.
Options alarm_options(AlarmConfig& config);

}  // namespace tt::config
