#pragma once

#include <spdlog/logger.h>

namespace tt::link {

/// The link's log. It goes to standard error: standard output belongs to the run's steps. Thread:
/// any.
spdlog::logger& log();

}  // namespace tt::link
