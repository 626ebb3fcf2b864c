#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor_tracer/config/option.h"

namespace tt::config {

/// The recording of a run: options of `tensor-tracer train` and of `tensor-tracer-hub serve`.
struct RecordingConfig {
  std::string record;                  // directory; empty: no recording
  std::uint64_t record_max_bytes = 0;  // 0: no bound
  std::vector<std::string> record_points;
  std::string record_layers;
  std::uint64_t record_every = 1;
};

/// The rows point into `config`, which must outlive them.
Options recording_options(RecordingConfig& config);

}  // namespace tt::config
