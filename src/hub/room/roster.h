#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "src/hub/room/client.h"
#include "src/hub/room/metrics.h"
#include "src/hub/room/rate_limit.h"
#include "tensor_tracer/protocol/request.h"

namespace tt::hub {

class AlarmCalls;
class SpikeRecorder;

/// The alarms of a run: docs/alarms.md.
struct AlarmOptions {
  std::string path = {};    // of alarms.json; empty: the alarms end with the hub
  std::string run_id = {};  // of the run that the file must belong to
  std::vector<protocol::SetAlarm> initial = {};  // if there is no such file
  /// The longest pause that an alarm may begin.
  std::chrono::milliseconds pause{1'800'000};
  /// Webhook and command; null: none. It outlives the room.
  AlarmCalls* calls = nullptr;
  /// Null: no spike recorder. It outlives the room.
  SpikeRecorder* spikes = nullptr;
};

struct RoomOptions {
  std::chrono::milliseconds lease{30'000};
  /// The longest time that a viewer's request may wait for the trainer's answer.
  std::chrono::milliseconds request_timeout{300'000};
  /// The longest time that a client may be silent before its hello.
  std::chrono::milliseconds hello_timeout{10'000};
  /// The size of the records that are kept for late viewers.
  std::size_t latest_bytes = std::size_t{256} << 20U;
  /// The trainer is a recording: a pause needs no lease.
  bool replay = false;
  SendQueueLimits queue = {};
  MessageLimit messages = {};  // of one viewer
  AlarmOptions alarms = {};
};

/// The room's state of one client.
struct Member {
  std::string session;  // "v3" or "w1"
  MessageGate gate;     // viewers
  bool greeted = false;
  bool watches = false;                          // viewers: counts, and gets records
  std::uint64_t rank = 0;                        // workers: the global rank
  std::optional<LinkFacts> link = std::nullopt;  // workers
  std::string demand = {};                       // workers: the last `viewers` they were sent
  Clock::time_point joined;
  bool may_be_silent = false;
  Clock::time_point heard;             // when the last message arrived
  Clock::time_point moved;             // workers: when the step thread last sent a message
  Clock::time_point damage_told = {};  // workers: when damage was last reported
  std::uint64_t damage_untold = 0;     // workers: damage since then
};

/// The connected clients. Sends messages to all viewers or workers.
/// Thread: the hub's I/O thread only. Owner: it owns no client; each client leaves before this
/// object ends.
class Roster {
 public:
  using Members = std::map<Client*, Member>;

  /// `options` outlives this object.
  explicit Roster(const RoomOptions& options) : options_(options) {}

  void join(Client& client, Clock::time_point now, bool may_be_silent);
  /// `successor` takes over the session of a client, which is no longer connected.
  void replace(Client& client, Client& successor);
  void leave(Client& client);
  /// Null if the client is not connected.
  Member* find(Client& client);
  /// Null if no connected client has this session.
  Client* find_session(std::string_view session);
  Members& members() { return members_; }
  const Members& members() const { return members_; }

  /// To all viewers.
  void broadcast(const SharedBytes& text);
  void broadcast(std::string_view event, nlohmann::json params);
  /// Sends to all viewers. Of two texts with the same key a slow viewer gets the later text.
  void broadcast_data(const std::string& key, const SharedBytes& text);
  /// Calls tick() of every client; disconnects clients that have not said hello in time.
  void tick(Clock::time_point now);
  /// Adds the clients to `survey`.
  void count(Survey& survey, Clock::time_point now) const;

 private:
  const RoomOptions& options_;
  Members members_;
  std::uint64_t last_viewer_ = 0;
  std::uint64_t last_worker_ = 0;
};

}  // namespace tt::hub
