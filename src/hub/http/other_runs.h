#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/record/query_thread.h"

namespace tt::hub {

/// The runs that the page offers beside its own run: those of other recordings that the hub was
/// given, and the newest runs of a folder.
/// Thread: describe() and path_of() any; the rest the hub's I/O thread only.
class OtherRuns {
 public:
  /// The error names the file that is not a recording.
  base::Status open(const std::vector<std::string>& paths);
  /// Also offers the runs of this folder (record/run_catalog.h), except `own_run`.
  void offer_folder(std::string folder, std::string own_run);
  /// Ends the reading threads.
  void close() { files_.clear(); }

  /// The reader of the given recording that holds the run; null if no such recording holds it.
  record::QueryThread* find(std::string_view run_id) const;
  /// The path of the recording of this run; empty if the folder holds no such recording. Reads the
  /// folder if the run is not known yet.
  std::string path_of(const std::string& run_id);
  /// The answer to `/history/runs` of docs/protocol.md. Reads the folder.
  nlohmann::json describe();

 private:
  struct File {
    std::vector<record::RunInfo> runs;  // as they were when the file was opened
    std::unique_ptr<record::QueryThread> reader;
  };
  void describe_folder(nlohmann::json& runs);

  std::vector<File> files_;
  std::string folder_;  // empty: none
  std::string own_run_;
  std::mutex mutex_;
  std::map<std::string, std::string> paths_;  // of the folder's runs, by id; guarded by mutex_
};

}  // namespace tt::hub
