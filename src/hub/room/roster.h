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
#include <vector>

#include "src/hub/room/audit_log.h"
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
  Clock::time_point joined;
  bool may_be_silent = false;
  Clock::time_point heard;             // when the last message arrived
  Clock::time_point moved;             // workers: when the step thread last sent a message
  Clock::time_point damage_told = {};  // workers: when damage was last reported
  std::uint64_t damage_untold = 0;     // workers: damage since then
};

/// The connected clients; sends messages to one or to all of them.
/// Thread: the hub's I/O thread only. Owner: it owns no client; each client leaves before this
/// object ends.
class Roster {
 public:
  using Members = std::map<Client*, Member>;

  /// Both outlive this.
  Roster(const RoomOptions& options, AuditLog& audit_log)
      : options_(options), audit_log_(audit_log) {}

  void join(Client& client, Clock::time_point now, bool may_be_silent);
  /// `successor` takes over the session of a client, which is no longer connected.
  void replace(Client& client, Client& successor);
  void leave(Client& client);
  /// Null if the client is not connected.
  Member* find(Client& client);
  /// Null if no connected client has this session.
  Client* find_session(std::string_view session);
  Members& members() { return members_; }

  /// The worker of global rank 0; null: no trainer is connected.
  Client* leader() const { return leader_; }
  /// REQUIRES: the client is connected, or `client` is null.
  void set_leader(Client* client) { leader_ = client; }

  /// To all viewers.
  void broadcast(const SharedBytes& text);
  void broadcast(std::string_view event, nlohmann::json params);
  /// Sends to all viewers. Of two texts with the same key a slow viewer gets the later text.
  void broadcast_data(const std::string& key, const SharedBytes& text);
  /// Informs all workers of the number of viewers that watch, and whether the hub itself takes
  /// traced records.
  void notify_demand();
  /// An alarm compares traced records, or the spike recorder keeps them.
  void set_alarm_demand(bool wants_records);
  /// Sends a `log` event to all viewers and the audit trail.
  void log(std::string_view level, const std::string& message);
  /// Reports a failure that does not end the run, such as of the disk. Viewers and the leader get
  /// the report now; clients that connect later get it from repeat_alarms().
  void raise_alarm(const base::Error& error);
  /// Sends the alarms to a client that was just greeted: a viewer, or the leader.
  void repeat_alarms(Client& client) const;

  /// Calls tick() of every client; disconnects clients that have not said hello in time.
  /// Informs viewers of the recorder's losses, at most once a second, and of the recording's size,
  /// at most every 5 seconds.
  void tick(Clock::time_point now);
  /// Adds the clients to `survey`.
  void count(Survey& survey, Clock::time_point now) const;

 private:
  void notify_recording_drops(Clock::time_point now);
  void notify_recording_size(Clock::time_point now);

  const RoomOptions& options_;
  AuditLog& audit_log_;
  Members members_;
  Client* leader_ = nullptr;
  std::uint64_t last_viewer_ = 0;
  std::uint64_t last_worker_ = 0;
  std::vector<std::string> alarms_;  // only a few: each comes from another part
  Clock::time_point loss_told_;
  Clock::time_point size_told_;
  std::uint64_t told_bytes_ = 0;  // of the recording
  bool alarms_want_records_ = false;
};

}  // namespace tt::hub
