#pragma once

#include <memory>

#include "src/comm/backend.h"

namespace tt::comm::local {

bool is_available();

/// The world of one rank. More ranks are threads: run_local().
std::unique_ptr<detail::Backend> start(const Launch& launch, const WorldOptions& options);

}  // namespace tt::comm::local
