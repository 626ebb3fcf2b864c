#pragma once

#include <mpi.h>

#include "src/comm/group_impl.h"

namespace tt::comm::detail {

/// The group of `comm`, which it takes over; a group of one rank frees it and needs no MPI.
/// Collective over `comm`. An operation after MPI_Finalize is a CheckError.
std::shared_ptr<GroupImpl> make_mpi_group(MPI_Comm comm);

}  // namespace tt::comm::detail
