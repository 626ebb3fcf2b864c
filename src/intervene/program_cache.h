#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "src/intervene/compiled_program.h"

namespace tt::intervene {

/// Keeps the programs that were compiled last in a run, so that the check of a program, its preview
/// and its start compile it once. If its files or vectors have changed, a program is compiled
/// again. Thread: any; two threads that call at the same time may both compile.
class ProgramCache {
 public:
  /// As compile_program(). REQUIRES: `context` is the same for all calls, except for the tensor
  /// rank and the sources of files.
  base::Result<std::shared_ptr<const CompiledProgram>> compile(const nlohmann::json& program,
                                                               const Context& context);
  /// Number of calls that compiled a program or tried to.
  std::int64_t num_compiled() const;

 private:
  struct Entry {
    int tensor_rank = 0;
    std::size_t bytes = 0;  // of files and constants
    std::shared_ptr<const CompiledProgram> program;
  };

  std::shared_ptr<const CompiledProgram> take(const std::string& source, int tensor_rank);
  void keep(Entry entry);

  mutable std::mutex mutex_;
  std::deque<Entry> entries_;  // the latest is last; guarded by mutex_
  std::size_t bytes_ = 0;      // of all entries; guarded by mutex_
  std::int64_t compiled_ = 0;  // guarded by mutex_
};

}  // namespace tt::intervene
