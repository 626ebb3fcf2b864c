#pragma once

#include <mpi.h>

#include <memory>

#include "src/comm/group_impl.h"

namespace tt::comm::detail {

/// The group of `comm`. Takes ownership of `comm`; a group of one rank frees `comm` and needs no
/// MPI. Supports CPU tensors. `shared_memory`: use it if all ranks are on one node. Collective over
/// `comm`. An operation after MPI_Finalize throws CheckError.
std::shared_ptr<GroupImpl> make_mpi_group(MPI_Comm comm, bool shared_memory);

}  // namespace tt::comm::detail
