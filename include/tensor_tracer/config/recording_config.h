#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor_tracer/config/option.h"

namespace tt::config {

/// The recording of a run: options of `tensor-tracer train` and of `tensor-tracer-hub serve`.
struct RecordingConfig {
  std::string record;                             // directory; empty: the run directory
  std::optional<std::uint64_t> record_max_bytes;  // unset: see max_bytes(); 0: no limit
  std::vector<std::string> record_points;
  std::string record_layers;
  std::uint64_t record_every = 1;
  std::optional<bool> history;  // unset: on

  /// The limit of a recording without --record.
  static constexpr std::uint64_t kDefaultMaxBytes = std::uint64_t{256} << 20U;

  /// The limit of the recording in bytes; 0: no limit.
  std::uint64_t max_bytes() const {
    return record_max_bytes.value_or(record.empty() ? kDefaultMaxBytes : 0);
  }
  /// True if traced records are recorded whether a viewer is connected or not.
  bool takes_traced() const { return !record.empty() || history.value_or(true); }
};

/// The rows point into `config`, which must outlive them.
Options recording_options(RecordingConfig& config);

}  // namespace tt::config
