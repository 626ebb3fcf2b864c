#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/trace/trace_sink.h"

namespace tt::link {

struct HubClientOptions {
  std::string host = "127.0.0.1";  // an address or a name of the hub's machine
  int port = 0;                    // of the hub
  std::string worker_token;        // HubInfo::worker_token
  nlohmann::json run;              // "The run's facts" of docs/protocol.md
  std::uint64_t rank = 0;          // global; requests reach rank 0 only
  std::uint64_t stage = 0;         // the pipeline stage that this rank leads
  std::uint64_t stages = 1;        // of the run
  /// Bytes that may wait for the hub. Above this limit the oldest records, and the oldest `saved`
  /// and `applied` events, are dropped and counted.
  std::size_t queue_bytes = std::size_t{64} << 20U;
  /// How long a pause may last after the contact with the hub is lost.
  std::chrono::milliseconds pause_timeout{30'000};
  /// True if the hub itself takes traced records. The hub's `viewers` events replace this value.
  bool is_wanted = false;
  /// Answers requests that need no lease. A thread of the client calls it and waits for no step.
  /// Empty: such requests go to poll() like the other requests.
  using Check = std::function<base::Result<nlohmann::json>(const protocol::TrainerRequest&)>;
  Check check = {};
};

/// A leader's connection to the hub. One thread of this object does all I/O and connects again for
/// as long as this object lives. Another thread answers the requests that change nothing. The
/// calling thread never waits for the network. After a reconnect the client sends the last `state`
/// event again, and the last `plan`, `prompts` and `interventions` events as part of the run's
/// facts. Thread: made, called and destroyed by the thread that runs the step; has_viewer() and
/// demand() by any.
class HubClient : public trace::TraceSink, public trace::ControlSource {
 public:
  explicit HubClient(HubClientOptions options);
  /// Calls finish() with its default limit.
  ~HubClient() override;
  HubClient(const HubClient&) = delete;
  HubClient& operator=(const HubClient&) = delete;

  void send_records(std::string records) noexcept override;
  void send_event(std::string_view event, nlohmann::json params) noexcept override;

  std::vector<trace::Request> poll() override;
  void wait(std::chrono::milliseconds limit) override;
  bool has_viewer() const override;
  trace::Demand demand() const override;
  void answer(std::uint64_t id, nlohmann::json result) noexcept override;
  void refuse(std::uint64_t id, const base::Error& error) noexcept override;

  /// What viewers have changed at the hub itself since the last call, in words: control taken over,
  /// an alarm set or removed, the run kept.
  std::vector<std::string> take_notices();

  /// Writes the queued messages, then ends the connection and its threads. Gives up once the hub
  /// has taken nothing for `limit`, or after 30 s. Messages sent later are lost. May be called
  /// again.
  void finish(std::chrono::milliseconds limit = std::chrono::milliseconds(1000)) noexcept;

  /// Records that never reached the hub.
  std::uint64_t dropped_records() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tt::link
