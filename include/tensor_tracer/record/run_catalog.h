#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"

/// The recorded runs of a folder that holds one run directory for each run, such as runs/. A run
/// without --record has its recording in the run directory; run.json names the folder of --record.
/// Thread: any.
namespace tt::record {

struct CatalogRun {
  std::string id;                 // 16 hex digits
  std::string name;               // of --run-name
  std::string state;              // "running", "finished", "stopped" or "lost"
  std::uint64_t step = 0;         // the newest one
  std::uint64_t train_iters = 0;  // 0: unknown
  std::optional<double> loss = {};
  /// Of the recording, with the files that SQLite puts beside it, and of the spike recorder's
  /// files.
  std::uint64_t bytes = 0;
  bool is_kept = false;
  /// A hub uses the run directory.
  bool is_in_use = false;
  std::string start_time = {};  // ISO 8601, UTC
  std::string recording = {};   // the file
  std::string run_dir = {};
  std::string url = {};  // of its hub, without the token; empty unless the hub runs

  /// True if --record has put the recording into another folder.
  bool is_elsewhere() const;
};

/// All runs, oldest first. Files that are not recordings are left out. A recording that another
/// process has locked gives a run without numbers.
std::vector<CatalogRun> list_runs(const std::string& folder);

/// The run with this id, or with the only id that begins with it. The error's code is "no_run".
base::Result<CatalogRun> find_run(const std::string& folder, const std::string& id);

/// Marks the run as kept.
base::Status keep_run(const CatalogRun& run);

/// Removes the recording, and the run directory's files if it holds no other recording. Files that
/// Tensor Tracer did not write stay. The error's code is "run_in_use" while a hub uses the
/// directory, "run_kept" for a kept run without `also_kept`.
base::Status remove_run(const CatalogRun& run, bool also_kept);

/// The runs of a folder that are too large together.
struct Excess {
  std::uint64_t bytes = 0;       // of all runs; 0: they are not too large
  std::vector<CatalogRun> runs;  // that may be removed
};

/// Names runs that are not kept and do not run, the largest first, until the others together have
/// at most `max_bytes`; at most `limit` runs. Counts the recordings and the spike recorder's files
/// in the run directories.
Excess find_excess(const std::string& folder, std::uint64_t max_bytes, std::size_t limit);

}  // namespace tt::record
