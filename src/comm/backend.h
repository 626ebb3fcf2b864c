#pragma once

#include <memory>

#include "src/comm/group_impl.h"
#include "tensor_tracer/comm/world.h"

// Every backend is a folder with the same files: backend.h declares is_available() and start(),
// group.h makes the groups, no_<name>.cpp replaces the other files if the backend is not built.
namespace tt::comm::detail {

/// A started backend. Owner: World. Thread: one thread per rank.
class Backend {
 public:
  virtual ~Backend() = default;
  /// The group of all ranks.
  virtual std::shared_ptr<GroupImpl> world() const = 0;
  /// Ends the backend; waits for all ranks.
  virtual void finish() = 0;
  /// Ends the other ranks of the job with this exit code; may also end this rank.
  virtual void abort(int exit_code) const = 0;
};

/// Starts the backend that the launcher needs. Throws CommError.
std::unique_ptr<Backend> start_backend(const Launch& launch, const WorldOptions& options);

}  // namespace tt::comm::detail
