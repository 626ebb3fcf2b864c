#pragma once

#include <spdlog/sinks/sink.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace tt::hub {

enum class LogFormat { kJson, kText };

/// A sink that writes each event as one line to `out`. The line is text for people, or JSON with
/// ts, level, event, run, message and, if they are known, rank and step. The event's kind is the
/// text before the first ": ", as in "client_joined: v3"; without ": " the kind is "log". At most
/// one event a second of each kind is written. The next line of its kind, or the end of the sink,
/// states how many were left out. Thread: any.
std::shared_ptr<spdlog::sinks::sink> make_event_sink(std::shared_ptr<spdlog::sinks::sink> out,
                                                     LogFormat format, std::string run);

/// Sets the run's step, which later log lines of this thread contain.
void set_log_step(std::uint64_t step);

/// During its lifetime, log lines of its thread contain this global rank of a worker, if any.
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
