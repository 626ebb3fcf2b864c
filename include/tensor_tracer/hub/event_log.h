#pragma once

#include <spdlog/sinks/sink.h>

#include <memory>
#include <string>

namespace tt::hub {

enum class LogFormat { kJson, kText };

/// A sink that writes each event as one line to `out`: as JSON with ts, level, event, run and
/// message, or for people. The event is what stands before the first ": " of a text such as
/// "client_joined: v3"; without one it is "log". Of one kind of event at most one a second is
/// written; the next line of its kind, or the sink's end, says how many were left out.
/// Thread: one.
std::shared_ptr<spdlog::sinks::sink> make_event_sink(std::shared_ptr<spdlog::sinks::sink> out,
                                                     LogFormat format, std::string run);

}  // namespace tt::hub
