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

/// A request of the controller that reached rank 0. The trainer executes it at a step boundary. Id
/// 0: the request needs no answer.
struct Request {
  std::uint64_t id = 0;
  protocol::TrainerRequest body;
};

/// Takes the wire records and events that a leader rank sends. The implementation owns its
/// arguments, never blocks and never throws. When its bounded queue is full, it drops the oldest
/// records and counts them. Thread: only the thread that runs the step.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  /// One or more complete wire records (docs/protocol.md), already checksummed.
  virtual void send_records(std::string records) noexcept = 0;
  /// A notification for all viewers, for example ("step", {...}). An event is never dropped while
  /// records are left to drop.
  virtual void send_event(std::string_view event, nlohmann::json params) noexcept = 0;
};

/// Delivers the controller's requests, on global rank 0 only. Thread: only the thread that runs the
/// step.
class ControlSource {
 public:
  virtual ~ControlSource() = default;
  /// The requests that arrived since the last call, oldest first. Never blocks. When the connection
  /// to the hub was lost for longer than the pause time-out, it returns one RevertPrograms and one
  /// ContinueRun with id 0.
  virtual std::vector<Request> poll() = 0;
  /// Sleeps until a request arrives or the time has passed.
  virtual void wait(std::chrono::milliseconds limit) = 0;
  /// True once at least one viewer is connected to the hub.
  virtual bool has_viewer() const = 0;
  /// True if a viewer is connected, or if the hub itself takes traced records.
  virtual bool wants_records() const = 0;
  /// answer() answers request `id`. refuse() answers it with an error: the request was refused and
  /// nothing changed.
  virtual void answer(std::uint64_t id, nlohmann::json result) noexcept = 0;
  virtual void refuse(std::uint64_t id, const base::Error& error) noexcept = 0;
};

}  // namespace tt::trace
