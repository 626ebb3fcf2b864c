#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/comm/launcher.h"
#include "tensor_tracer/comm/process_group.h"

namespace tt::comm {

namespace detail {
class Backend;
}

struct WorldOptions {
  /// True: groups whose ranks are on one node use shared memory if it is faster. False: only MPI,
  /// for tests and for a node whose shared memory is broken.
  bool shared_memory = true;
};

/// Gives an error if this program was built without the backend that the launcher needs, or if that
/// is not `asked`: "mpi", "gloo", "nccl", or "auto" for any.
base::Status check_backend(const Launch& launch, const std::string& asked = "auto");

/// Owns the backend that the launcher needs, from its start to its end: MPI from MPI_Init_thread to
/// MPI_Finalize; under torchrun libtorch's gloo groups; without a launcher a world of one rank,
/// which uses neither. At most one per process. Groups that live longer than the World free
/// nothing, and every use of them is a CheckError. If an exception destroys the World, it does not
/// call MPI_Finalize, which would wait for the other ranks; the end of this process then ends the
/// job.
class World {
 public:
  /// Throws CommError if check_backend() has an error, if MPI does not provide
  /// MPI_THREAD_SERIALIZED, if MPI's world differs from the launcher's numbers, or if the ranks of
  /// torchrun do not meet.
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

/// Runs `body` on `size` ranks that are threads of this process, for tests. After the first
/// exception of a rank, the pending operations of the other ranks throw. run_local() rethrows the
/// first exception.
void run_local(int size, const std::function<void(const ProcessGroup&)>& body);

}  // namespace tt::comm
