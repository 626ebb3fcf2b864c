#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/hub/server.h"

namespace tt::cli {

/// What the hub is told about what it keeps of a run.
struct RecordingFlags {
  std::string record_dir;
  std::uint64_t record_max_bytes = 0;
  std::uint64_t history_bytes = std::uint64_t{256} << 20U;
  std::vector<std::string> record_points;
  std::string record_layers;
  std::uint64_t record_every = 1;
};

void add_recording_flags(CLI::App& command, RecordingFlags& flags);

/// The same flags as words, for the `serve` that `supervise` starts.
std::vector<std::string> words_of(const RecordingFlags& flags);

/// Makes the directory of --record, if there is one. The error names the directory and the reason.
base::Status make_record_dir(const RecordingFlags& flags);

/// The recording of a run; without --record the temporary file of its history; nothing where
/// nothing is kept. The error names the flag.
base::Result<std::optional<record::RecorderOptions>> recorder_options(const RecordingFlags& flags,
                                                                      const std::string& run_dir,
                                                                      const std::string& run_id);

/// Flags of `replay`: which recording, and how.
void add_replay_flags(CLI::App& command, hub::ReplayOptions& replay);

}  // namespace tt::cli
