#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/hub/audit_log.h"
#include "src/hub/client.h"
#include "src/hub/legacy_viewer.h"
#include "src/hub/metrics.h"
#include "src/hub/rate_limit.h"
#include "tensor_tracer/protocol/shared_records.h"

namespace tt::hub {

struct RoomOptions {
  std::chrono::milliseconds lease{30'000};
  /// How long a viewer's request may wait for the trainer's answer.
  std::chrono::milliseconds request_timeout{300'000};
  /// How long a client may stay silent before its hello.
  std::chrono::milliseconds hello_timeout{10'000};
  /// Records kept for late viewers.
  std::size_t latest_bytes = std::size_t{256} << 20U;
  /// The trainer is a recording: its pauses need no lease.
  bool replay = false;
  SendQueueLimits queue = {};
  MessageLimit messages = {};  // of one viewer
  /// Called by another thread when Room::take_updates() has something to do.
  std::function<void()> on_update_made = [] {};
};

/// The room's notes on one client.
struct Member {
  std::string session;  // "v3" or "w1"
  MessageGate gate;     // viewers
  bool greeted = false;
  std::uint64_t rank = 0;                                    // workers: the global rank
  std::optional<LinkFacts> link = std::nullopt;              // workers
  std::unique_ptr<protocol::SharedReader> shared = nullptr;  // workers that offered memory
  Clock::time_point joined;
  bool may_be_silent = false;
  Clock::time_point heard;                  // when the last message came
  Clock::time_point moved;                  // workers: when the step thread last sent one
  Clock::time_point damage_told = {};       // workers: when damage was last reported
  std::uint64_t damage_untold = 0;          // workers: damage since then
  std::optional<LegacyViewer> legacy = {};  // none: it speaks the native protocol
};

/// The connected clients, and messages to one or all of them.
/// Thread: the hub's I/O thread only. Owner: of no client; each leaves before this ends.
class Roster {
 public:
  using Members = std::map<Client*, Member>;

  /// Both outlive this.
  Roster(const RoomOptions& options, AuditLog& audit_log)
      : options_(options), audit_log_(audit_log) {}

  void join(Client& client, Clock::time_point now, bool may_be_silent);
  void leave(Client& client);
  /// Null: the client is not here.
  Member* find(Client& client);
  /// Null: nobody here has this session.
  Client* find_session(std::string_view session);
  Members& members() { return members_; }

  /// The worker of global rank 0; null: no trainer is connected.
  Client* leader() const { return leader_; }
  /// REQUIRES: it is here, or null.
  void set_leader(Client* client) { leader_ = client; }

  /// A client whose queue is full is closed.
  static void send(Client& client, std::string text);
  static void send(Client& client, const SharedBytes& text);
  /// To all native viewers.
  void broadcast(const SharedBytes& text);
  void broadcast(std::string_view event, nlohmann::json params);
  /// To all native viewers; of two texts of one key a slow one gets the later.
  void broadcast_data(const std::string& key, const SharedBytes& text);
  /// Tells all workers how many viewers there are.
  void notify_viewer_count();
  /// A `log` to all native viewers and the audit trail.
  void log(std::string_view level, const std::string& message);
  /// Something failed that the run outlives, such as the disk: viewers and the leader are told now,
  /// later ones by repeat_alarms().
  void raise_alarm(const base::Error& error);
  /// To a client that has just been greeted: a viewer, or the leader.
  void repeat_alarms(Client& client) const;

  /// Lets clients end what has timed out; closes those that have said no hello in time. Tells
  /// viewers what the recorder did not keep, at most once a second.
  void tick(Clock::time_point now);
  /// Adds the clients to `survey`.
  void count(Survey& survey, Clock::time_point now) const;

 private:
  void notify_recording_drops(Clock::time_point now);

  const RoomOptions& options_;
  AuditLog& audit_log_;
  Members members_;
  Client* leader_ = nullptr;
  std::uint64_t last_viewer_ = 0;
  std::uint64_t last_worker_ = 0;
  std::vector<std::string> alarms_;  // a few: each is of another part
  Clock::time_point loss_told_;
};

}  // namespace tt::hub
