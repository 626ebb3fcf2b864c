#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/record/query_thread.h"

namespace tt::hub {

/// The runs of other recordings, which the page may compare with its own.
/// Thread: the hub's I/O thread only.
class OtherRuns {
 public:
  /// The error names the file that is no recording.
  base::Status open(const std::vector<std::string>& paths);
  /// Ends the threads that read.
  void close() { files_.clear(); }

  /// The reader of the run's recording; null: no recording holds the run.
  record::QueryThread* find(std::string_view run_id) const;
  /// The answer to `/history/runs` of docs/protocol.md.
  nlohmann::json describe() const;

 private:
  struct File {
    std::vector<record::RunInfo> runs;  // as they were when it was opened
    std::unique_ptr<record::QueryThread> reader;
  };
  std::vector<File> files_;
};

}  // namespace tt::hub
