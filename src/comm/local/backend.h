#pragma once

#include <memory>

#include "src/comm/backend.h"

namespace tt::comm::local {

bool is_available();

/// Starts a world of one rank. For more ranks, as threads, see run_local().
std::unique_ptr<detail::Backend> start(const Launch& launch, const WorldOptions& options);

}  // namespace tt::comm::local
