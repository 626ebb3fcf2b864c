#pragma once

#include <string>

namespace tt::link {

enum class LogLevel { kInfo, kWarning, kError };

/// Writes a line to standard error, because standard output belongs to the run's steps. Thread:
/// any.
void log(LogLevel level, const std::string& message);

}  // namespace tt::link
