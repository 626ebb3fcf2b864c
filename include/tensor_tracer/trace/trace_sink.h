#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/protocol/request.h"

namespace tt::trace {

/// A request of the controller that reached rank 0, to be carried out at a step boundary. Id 0: it
/// wants no answer.
struct Request {
  std::uint64_t id = 0;
  protocol::TrainerRequest body;
};

/// The way out of a leader rank: finished wire records and events. The implementation owns what it
/// is given, never blocks, never throws, and when its bounded queue is full drops the oldest
/// records and counts them.
/// Thread: called by the thread that runs the step only.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  /// One or more complete wire records (docs/protocol.md), already checksummed.
  virtual void send_records(std::string records) noexcept = 0;
  /// A notification for everybody who listens, for example ("step", {...}). Never dropped before
  /// records are.
  virtual void send_event(std::string_view event, nlohmann::json params) noexcept = 0;
};

/// The way in: what the controller asked for, on global rank 0 only.
/// Thread: called by the thread that runs the step only.
class ControlSource {
 public:
  virtual ~ControlSource() = default;
  /// The requests that arrived since the last call, oldest first. Never blocks. When contact with
  /// the hub was lost for longer than the pause time-out it yields one RevertPrograms and one
  /// ContinueRun with id 0.
  virtual std::vector<Request> poll() = 0;
  /// Sleeps until a request is there or the time is over.
  virtual void wait(std::chrono::milliseconds limit) = 0;
  /// True once at least one viewer is connected to the hub.
  virtual bool has_viewer() const = 0;
  /// Answers request `id`; with an error the request was refused and nothing changed.
  virtual void answer(std::uint64_t id, nlohmann::json result) noexcept = 0;
  virtual void refuse(std::uint64_t id, const base::Error& error) noexcept = 0;
};

}  // namespace tt::trace
