#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/record/query_thread.h"

namespace tt::hub {

/// The runs of other recordings. The page may compare them with its own run.
/// Thread: the hub's I/O thread only.
class OtherRuns {
 public:
  /// The error names the file that is not a recording.
  base::Status open(const std::vector<std::string>& paths);
  /// Ends the reading threads.
  void close() { files_.clear(); }

  /// The reader of the recording that holds the run; null if no recording holds it.
  record::QueryThread* find(std::string_view run_id) const;
  /// The answer to `/history/runs` of docs/protocol.md.
  nlohmann::json describe() const;

 private:
  struct File {
    std::vector<record::RunInfo> runs;  // as they were when the file was opened
    std::unique_ptr<record::QueryThread> reader;
  };
  std::vector<File> files_;
};

}  // namespace tt::hub
