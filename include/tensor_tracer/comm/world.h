#pragma once

#include <functional>
#include <memory>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/comm/launcher.h"
#include "tensor_tracer/comm/process_group.h"

namespace tt::comm {

namespace detail {
class Backend;
}

struct WorldOptions {
  /// Groups whose ranks are on one node use shared memory where it is faster. False: MPI only, for
  /// tests and for a node whose shared memory is broken.
  bool shared_memory = true;
};

/// Error: this program was built without the backend that the launcher needs.
base::Status check_backend(const Launch& launch);

/// Owns the backend that the launcher needs, from its start to its end: MPI from MPI_Init_thread to
/// MPI_Finalize, or without a launcher a world of one rank, which touches no MPI. At most one per
/// process. Groups of it that live longer free nothing, and every use of them is a CheckError.
/// Destroyed by an exception, it leaves out MPI_Finalize, which would wait for the other ranks: a
/// process that ends like that ends the job.
class World {
 public:
  /// Throws CommError where check_backend() has an error, where MPI does not give
  /// MPI_THREAD_SERIALIZED, and where its world differs from what the launcher said.
  explicit World(const Launch& launch, WorldOptions options = {});
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  const ProcessGroup& group() const { return group_; }
  /// Ends every rank of the job with this exit code, without returning.
  [[noreturn]] void abort(int exit_code) const;

 private:
  const std::unique_ptr<detail::Backend> backend_;
  ProcessGroup group_;
};

/// Runs `body` on `size` ranks that are threads of this process, for tests. The first exception of
/// any rank makes the others' pending operations throw, and is rethrown here.
void run_local(int size, const std::function<void(const ProcessGroup&)>& body);

}  // namespace tt::comm
