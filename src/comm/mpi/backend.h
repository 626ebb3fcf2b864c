#pragma once

#include <memory>

#include "src/comm/backend.h"

namespace tt::comm::mpi {

/// True: this program was built with MPI.
bool is_available();

/// Starts MPI. If all ranks are on one node, it disables Open MPI's TCP transport: nothing needs it
/// there, and its sockets listen on every interface. A choice of transports in the environment
/// (OMPI_MCA_btl…) has priority. Throws CommError if MPI does not provide the thread level or does
/// not confirm the launcher's numbers.
std::unique_ptr<detail::Backend> start(const Launch& launch, const WorldOptions& options);

}  // namespace tt::comm::mpi
