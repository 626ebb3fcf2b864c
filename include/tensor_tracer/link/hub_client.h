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
  int port = 0;              // of the hub, on 127.0.0.1
  std::string worker_token;  // HubInfo::worker_token
  nlohmann::json run;        // "The run's facts" of docs/protocol.md
  std::uint64_t rank = 0;    // global; requests reach rank 0 only
  /// What may wait for the hub; above it the oldest records, and events `saved` and `applied`, are
  /// dropped and counted.
  std::size_t queue_bytes = std::size_t{64} << 20U;
  /// How long a pause may outlive the contact with the hub.
  std::chrono::milliseconds pause_timeout{30'000};
  /// Answers requests that need no lease; called by a thread of the client, which waits for no
  /// step. Empty: such requests go to poll() like the others.
  using Check = std::function<base::Result<nlohmann::json>(const protocol::TrainerRequest&)>;
  Check check = {};
};

/// A leader rank's connection to the hub. Its own thread does all I/O and connects again for as
/// long as this object lives, another answers what only asks; the calling thread never waits for
/// the network. The last `state` event, and the last `plan` and `interventions` events as part of
/// the run's facts, are told again after a reconnect. Thread: made, called and destroyed by the
/// thread that runs the step; has_viewer() by any.
class HubClient : public trace::TraceSink, public trace::ControlSource {
 public:
  explicit HubClient(HubClientOptions options);
  /// finish() with its default limit.
  ~HubClient() override;
  HubClient(const HubClient&) = delete;
  HubClient& operator=(const HubClient&) = delete;

  void send_records(std::string records) noexcept override;
  void send_event(std::string_view event, nlohmann::json params) noexcept override;

  std::vector<trace::Request> poll() override;
  void wait(std::chrono::milliseconds limit) override;
  bool has_viewer() const override;
  void answer(std::uint64_t id, nlohmann::json result) noexcept override;
  void refuse(std::uint64_t id, const base::Error& error) noexcept override;

  /// Writes what is queued and ends the connection and its thread. Gives up once the hub has taken
  /// nothing for `limit`, or after 30 s. What is sent later goes nowhere. May be called again.
  void finish(std::chrono::milliseconds limit = std::chrono::milliseconds(1000)) noexcept;

  /// Records that never reached the hub.
  std::uint64_t dropped_records() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tt::link
