#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"

namespace tt::record {

enum class ExportFormat { kNpz, kSafetensors, kCsv, kTensorBoard };

/// What of one run is exported, and where to.
struct ExportOptions {
  ExportFormat format = ExportFormat::kNpz;
  std::string output = {};               // TensorBoard: a folder, made if absent; else a file
  std::string run = {};                  // 16 hex digits; empty: the recording's only run
  std::vector<std::string> points = {};  // by name; none: all of them
  std::optional<std::set<std::uint16_t>> layers = {};  // points without layers are not asked
  std::uint64_t first_step = 0;
  std::uint64_t last_step = INT64_MAX;
  bool raw = false;    // u8 as codes, offsets and scales; of NPZ and safetensors only
  bool force = false;  // replace the output
};

struct ExportReport {
  std::string path;           // of the file that was written
  std::uint64_t records = 0;  // that are in it
  std::uint64_t steps = 0;    // whose scalars are in it
};

/// Writes one recording's records and scalars as docs/recording.md, "Exports", says. Holds one
/// record and one run's scalars in memory, not more. The output appears under its name only when it
/// is whole. Of a recording that is still written it takes the state at the start. Thread: any.
base::Result<ExportReport> export_recording(const std::string& recording,
                                            const ExportOptions& options);

}  // namespace tt::record
