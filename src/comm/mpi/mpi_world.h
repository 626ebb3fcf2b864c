#pragma once

#include "src/comm/group_impl.h"
#include "tensor_tracer/comm/world.h"

namespace tt::comm::detail {

/// Starts MPI and returns the group of all ranks. Throws CommError when the thread level or the
/// launcher's numbers do not hold.
std::shared_ptr<GroupImpl> start_mpi(const Launch& launch, const WorldOptions& options);

/// MPI_Finalize, which waits for all ranks.
void finish_mpi();

/// MPI_Abort of all ranks.
[[noreturn]] void abort_mpi(int exit_code);

}  // namespace tt::comm::detail
