#pragma once

#include <spdlog/sinks/sink.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace tt::hub {

enum class LogFormat { kJson, kText };

/// A sink that writes each event as one line to `out`: as JSON with ts, level, event, run, message
/// and, where they are known, rank and step, or for people. The event is what stands before the
/// first ": " of a text such as "client_joined: v3"; without one it is "log". Of one kind of event
/// at most one a second is written; the next line of its kind, or the sink's end, says how many
/// were left out. Thread: any.
std::shared_ptr<spdlog::sinks::sink> make_event_sink(std::shared_ptr<spdlog::sinks::sink> out,
                                                     LogFormat format, std::string run);

/// The run's step: what this thread logs from now on is told with it.
void set_log_step(std::uint64_t step);

/// As long as it lives, what its thread logs is about the worker of this global rank, if any.
class LogRank {
 public:
  explicit LogRank(std::optional<std::uint64_t> rank);
  ~LogRank();
  LogRank(const LogRank&) = delete;
  LogRank& operator=(const LogRank&) = delete;

 private:
  const std::optional<std::uint64_t> before_;
};

}  // namespace tt::hub
