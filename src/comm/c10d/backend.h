#pragma once

#include <memory>

#include "src/comm/backend.h"

namespace tt::comm::c10d {

/// True: this program was built with libtorch's process groups.
bool is_available();

/// Connects to the store of torchrun, or hosts it on rank 0 if torchrun does not, and makes a gloo
/// group of all ranks. If all ranks are on one node, the groups listen on the loopback interface
/// only; otherwise GLOO_SOCKET_IFNAME chooses the interface. Throws CommError if not all ranks
/// meet.
std::unique_ptr<detail::Backend> start(const Launch& launch, const WorldOptions& options);

}  // namespace tt::comm::c10d
