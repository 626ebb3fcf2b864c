#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/checkpoint/file_facts.h"

/// The manifest of a checkpoint: manifest.json lists the files with their sizes and checksums, and
/// holds the facts of the run. manifest.crc32c holds the checksum of manifest.json. Thread: any.
namespace tt::checkpoint {

struct Manifest {
  std::int64_t step = 0;
  double time = 0;                        // seconds since 1970
  std::vector<FileFacts> files;           // sorted by name
  nlohmann::json facts;                   // of the run: docs/checkpoints.md
  std::optional<double> valid_loss = {};  // if the step was evaluated
};

/// The error of a checkpoint whose files are wrong. `path`: of the wrong file.
base::Error damaged_checkpoint(const std::string& path, const std::string& message);

/// manifest.json as a text.
std::string to_text(const Manifest& manifest);

/// Reads such a text. `path`: for the error, whose code is "damaged".
base::Result<Manifest> parse_manifest(std::string_view text, const std::string& path);

/// Writes both files into `folder`.
base::Status write_manifest(const std::string& folder, const Manifest& manifest);

/// Error: the code is "not_found" or "damaged".
base::Result<Manifest> read_manifest(const std::string& folder);

/// Compares every file with its size and checksum. The error's code is "damaged", and `where` names
/// the file.
base::Status verify_files(const std::string& folder, const Manifest& manifest);

/// "step_00000100".
std::string checkpoint_name(std::int64_t step);

/// The checkpoints in `folder`, the newest first. `folder` may be a checkpoint itself. Folders that
/// a save did not complete are left out. A checkpoint whose manifest is damaged is included.
std::vector<std::string> find_checkpoints(const std::string& folder);

}  // namespace tt::checkpoint
