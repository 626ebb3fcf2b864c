#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
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
  std::string by = {};  // the controller's name; empty: the hub or the link asks
};

/// The entries of a plan whose records somebody takes. The records of prompts, and lists that are
/// kept over the run, are always made.
struct Demand {
  static constexpr std::uint64_t kAll = ~std::uint64_t{0};
  std::uint64_t entries = kAll;            // bit n: entry n
  std::optional<std::uint32_t> plan = {};  // the number of the plan; nothing: of every plan

  /// The entries of plan `number`; all entries if it is not known yet which ones.
  std::uint64_t in(std::uint32_t number) const {
    return entries != 0 && plan && *plan != number ? kAll : entries;
  }
  /// Entries from 64 on have no bit, and are always in.
  static bool has(std::uint64_t entries, std::size_t entry) {
    return entry >= 64 || (entries >> entry & 1U) != 0;
  }
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
  /// The entries that a viewer or the hub itself takes.
  virtual Demand demand() const = 0;
  /// answer() answers request `id`. refuse() answers it with an error: the request was refused and
  /// nothing changed.
  virtual void answer(std::uint64_t id, nlohmann::json result) noexcept = 0;
  virtual void refuse(std::uint64_t id, const base::Error& error) noexcept = 0;
};

}  // namespace tt::trace
