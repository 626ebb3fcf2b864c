#pragma once

#include <memory>

#include "src/comm/backend.h"

namespace tt::comm::mpi {

/// True: this program was built with MPI.
bool is_available();

/// Starts MPI. Where all ranks are on one node, Open MPI's TCP transport is left out, whose sockets
/// listen on every interface and which nothing needs there; a choice of transports in the
/// environment (OMPI_MCA_btl…) goes before. Throws CommError when the thread level or the
/// launcher's numbers do not hold.
std::unique_ptr<detail::Backend> start(const Launch& launch, const WorldOptions& options);

}  // namespace tt::comm::mpi
