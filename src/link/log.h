#pragma once

#include <spdlog/logger.h>

namespace tt::link {

/// The link's log: standard error, since standard output belongs to the run's steps. Thread: any.
spdlog::logger& log();

}  // namespace tt::link
