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
#include "src/hub/dialect/disturbances.h"
#include "src/hub/dialect/shown_records.h"
#include "src/hub/dialect/update_encoder.h"
#include "src/hub/forwarder.h"
#include "src/hub/lease.h"
#include "src/hub/legacy_viewer.h"
#include "src/hub/metrics.h"
#include "src/hub/rate_limit.h"
#include "src/hub/run_state.h"
#include "tensor_tracer/protocol/message.h"
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
  /// Called by another thread when take_updates() has something to do.
  std::function<void()> on_update_made = [] {};
};

/// The notification `alarm`, which the trainer prints.
std::string alarm_text(const std::string& message);

/// Everybody who is connected, and the rules of docs/protocol.md between them. Knows no sockets.
/// tests/e2e/echo_hub.cpp overrides what it does with messages.
/// Thread: the hub's I/O thread only. Owner: of no client; each leaves before it ends.
class Room {
 public:
  explicit Room(const RoomOptions& options);
  virtual ~Room() = default;
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  /// `recorder` outlives the room. `path`: told to viewers; empty: of a file that does not stay.
  void record_to(record::Recorder& recorder, std::string path) {
    journal_.start(recorder);
    recording_ = std::move(path);
  }
  /// What comes now is not recorded any more.
  void end_recording() { journal_.end(); }
  /// Shows the run of an earlier hub until its trainer connects again.
  void restore(nlohmann::json facts, const std::vector<nlohmann::json>& steps);
  /// The run is at another time: these are the steps that late viewers see as its past.
  void replace_past(const std::vector<nlohmann::json>& steps);

  /// A queue for a client to be.
  SendQueue make_queue() { return {options_.queue, mirror_.latest()}; }

  /// `may_be_silent`: it connected as clients of the legacy dialects do, which speak when their
  /// user does.
  void join(Client& client, Clock::time_point now, bool may_be_silent = false);
  void leave(Client& client);
  virtual void on_text(Client& client, std::string_view text, Clock::time_point now);
  /// Keeps large records where they are, small ones and those of the second form as copies.
  virtual void on_binary(Client& client, const SharedBytes& message, Clock::time_point now);
  void on_binary(Client& client, std::string_view bytes, Clock::time_point now);
  /// The global rank of a worker that has said hello.
  std::optional<std::uint64_t> rank_of(Client& client) const;
  /// Sends what RoomOptions::on_update_made told of.
  void take_updates();
  /// Ends what has timed out; call it about ten times a second.
  void tick(Clock::time_point now);
  /// Something failed that the run outlives, as the disk: viewers and trainer are told, now and
  /// later.
  void raise_alarm(const base::Error& error);
  /// The same where the recording could not be opened.
  void go_without_recording(const base::Error& error);

  Metrics& metrics() { return metrics_; }
  Survey survey(Clock::time_point now);
  /// An error if no trainer is connected, or if one that should be running has said nothing for
  /// `timeout`.
  base::Status ready(Clock::time_point now, std::chrono::milliseconds timeout) const;

 private:
  struct Member {
    std::string session;  // "v3" or "w1"
    MessageGate gate;     // viewers
    bool greeted = false;
    std::uint64_t rank = 0;                                    // workers: the global rank
    std::optional<LinkFacts> link = std::nullopt;              // workers
    std::unique_ptr<protocol::SharedReader> shared = nullptr;  // workers that offered memory
    Clock::time_point joined;
    bool may_be_silent = false;
    Clock::time_point heard;                  // when it said something last
    Clock::time_point moved;                  // workers: when its step thread did
    Clock::time_point damage_told = {};       // workers: when damage was told last
    std::uint64_t damage_untold = 0;          // workers: damage that was not told since
    std::optional<LegacyViewer> legacy = {};  // none: it speaks the native protocol
  };
  using Members = std::map<Client*, Member>;
  using json = nlohmann::json;

  // room.cpp
  bool admit(Client& client, Member& member, std::string_view text, Clock::time_point now);
  void on_malformed(Client& client, const protocol::Malformed& malformed);
  void send(Client& client, std::string text);
  void send(Client& client, const SharedBytes& text);
  void broadcast(const SharedBytes& text);
  void broadcast(std::string_view event, json params);
  Client* find_session(const std::string& session);
  void notify_viewer_count();
  /// Told to all viewers and kept in the audit trail.
  void warn(std::string_view level, const std::string& message);
  void end_lease(std::string_view why);
  void continue_run(std::string_view why);
  void revert_programs(std::string_view why);
  void end_what_outlived_its_lease(Clock::time_point now);
  void notify_recording_drops(Clock::time_point now);
  /// A request of the hub's own, which wants no answer.
  void ask_trainer(const std::string& method);

  // viewer_requests.cpp
  void on_request(Client& client, Member& member, protocol::Request request, Clock::time_point now);
  void on_viewer_notification(Client& client, Member& member,
                              const protocol::Notification& notification);
  base::Result<json> answer_viewer(Client& client, Member& member, const protocol::Request& request,
                                   Clock::time_point now);
  base::Result<json> claim(const Client& client, const Member& member, const json& params,
                           Clock::time_point now);
  base::Result<json> release(const Member& member);
  base::Result<json> subscribe(Client& client, const json& params);
  base::Status forward(const Member& member, protocol::Request request, Clock::time_point now);
  void greet(Client& client, Member& member, const protocol::Request& request,
             Clock::time_point now);
  base::Status greet_viewer(Client& client, Member& member, const protocol::Request& request,
                            Clock::time_point now);

  // legacy_viewers.cpp
  bool on_legacy_text(Client& client, Member& member, std::string_view text, Clock::time_point now);
  void on_legacy_message(Client& client, Member& member, json message, Clock::time_point now);
  void run_training_step(Client& client, Member& member, json message, Clock::time_point now);
  base::Status watch_for(Client& client, Member& member, const json& message,
                         Clock::time_point now);
  std::vector<protocol::Request> wishes_for(
      const Member& member, const json& plan,
      const std::vector<dialect::Disturbance>& disturbances) const;
  base::Status ask_for_legacy(Member& member, std::vector<protocol::Request> wishes,
                              Clock::time_point now);
  void start_legacy(Client& client, Member& member);
  void finish_request(const Forwarder::Asker& asker, base::Result<json> outcome);
  void finish_for_legacy(Client& viewer, Member& member, const Forwarder::Asker& asker,
                         const base::Result<json>& outcome);
  void tend_legacy_viewers(Clock::time_point now);
  Translation update_of(dialect::Dialect dialect, const SharedBytes& record);
  bool wants_record(const Member& member, const protocol::RecordHeader& header) const;

  // worker_records.cpp
  void take_places(Client& client, Member& member, std::string_view places, Clock::time_point now);
  void take_records(Member& member, const SharedBytes& records, Clock::time_point now);
  void show_record(const protocol::RecordHeader& header, const StoredRecord& record,
                   Clock::time_point now);
  void end_message(Clock::time_point now);
  /// At most one message per second and worker; the next one says how many were left out.
  void notify_damage(Member& member, const base::Error& error, Clock::time_point now);

  // worker_messages.cpp
  void greet_worker(Client& client, Member& member, const protocol::Request& request);
  static bool accept_memory(Member& member, const json& offer);
  void replace_leader(Client& client, Member& member);
  void on_answer(protocol::Answer answer);
  void keep_in_trail(const Forwarder::Asker& asker, const protocol::Answer& answer);
  void on_notification(Client& client, Member& member, const protocol::Notification& notification,
                       std::string_view text);
  void follow_leader(const protocol::Notification& notification, const SharedBytes& text);
  void pass_on_data(const protocol::Notification& notification, const SharedBytes& text);
  void lose_leader();

  const RoomOptions options_;
  Metrics metrics_;
  RunState mirror_;
  Lease lease_;
  Forwarder forwarder_;
  AuditLog journal_;
  std::string recording_;
  std::vector<std::string> alarms_;  // a few: each is of another part
  Members members_;
  dialect::ShownRecords shown_records_;  // to legacy viewers
  dialect::UpdateEncoder encoder_;       // of those records
  Client* leader_ = nullptr;             // the worker of global rank 0
  std::uint64_t last_viewer_ = 0;
  std::uint64_t last_worker_ = 0;
  bool pause_wanted_ = false;      // a holder asked for a pause that nobody has ended
  bool revert_wanted_ = false;     // a holder asked for a program that ends with the lease
  Clock::time_point lost_told_;    // when viewers were told last what is not recorded
  Clock::time_point holder_seen_;  // when somebody held the lease last
};

}  // namespace tt::hub
