#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/hub/audit_log.h"
#include "src/hub/client.h"
#include "src/hub/forwarder.h"
#include "src/hub/lease_keeper.h"
#include "src/hub/legacy_desk.h"
#include "src/hub/metrics.h"
#include "src/hub/roster.h"
#include "src/hub/run_state.h"
#include "src/hub/viewer_desk.h"
#include "src/hub/worker_desk.h"
#include "tensor_tracer/protocol/message.h"

namespace tt::hub {

/// All connected clients and the rules of docs/protocol.md between them: reads each message and
/// gives it to the class that answers it. Knows no sockets.
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
    audit_log_.start(recorder);
    workers_.set_recording(std::move(path));
  }
  /// From now on nothing is recorded.
  void end_recording() { audit_log_.end(); }
  /// Shows the run of an earlier hub until its trainer connects again.
  void restore(nlohmann::json facts, const std::vector<nlohmann::json>& steps);
  /// The run is at another time: these are the steps that late viewers see as its past.
  void replace_past(const std::vector<nlohmann::json>& steps);

  /// A queue for a client to be.
  SendQueue make_queue() { return {options_.queue, run_.latest()}; }

  /// `may_be_silent`: it connected as clients of the legacy dialects do, which speak when their
  /// user does.
  void join(Client& client, Clock::time_point now, bool may_be_silent = false) {
    roster_.join(client, now, may_be_silent);
  }
  void leave(Client& client);
  virtual void on_text(Client& client, std::string_view text, Clock::time_point now);
  /// Keeps large records where they are, small ones and those of the second form as copies.
  virtual void on_binary(Client& client, const SharedBytes& message, Clock::time_point now);
  void on_binary(Client& client, std::string_view bytes, Clock::time_point now);
  /// The global rank of a worker that has said hello.
  std::optional<std::uint64_t> rank_of(Client& client);
  /// Sends what RoomOptions::on_update_made told of.
  void take_updates() { legacy_viewers_.take_updates(); }
  /// Ends what has timed out; call it about ten times a second.
  void tick(Clock::time_point now);
  /// Something failed that the run outlives, such as the disk: viewers and the trainer are told,
  /// now and later.
  void raise_alarm(const base::Error& error) { roster_.raise_alarm(error); }
  /// The same where the recording could not be opened.
  void go_without_recording(const base::Error& error);

  Metrics& metrics() { return metrics_; }
  Survey survey(Clock::time_point now) const;
  /// An error if no trainer is connected, or if one that should be running has said nothing for
  /// `timeout`.
  base::Status ready(Clock::time_point now, std::chrono::milliseconds timeout);

 private:
  bool admit(Client& client, Member& member, std::string_view text, Clock::time_point now);
  void on_request(Client& client, Member& member, const protocol::Request& request,
                  Clock::time_point now);
  void greet(Client& client, Member& member, const protocol::Request& request,
             Clock::time_point now);
  /// Error: the message has no place here.
  base::Status on_other(Client& client, Member& member, protocol::Message message,
                        std::string_view text, Clock::time_point now);
  void finish(const Forwarder::Asker& asker, base::Result<nlohmann::json> outcome);

  const RoomOptions options_;
  Metrics metrics_;
  RunState run_;
  AuditLog audit_log_;
  Roster roster_;
  Forwarder forwarder_;
  LeaseKeeper keeper_;
  ViewerDesk viewers_;
  LegacyDesk legacy_viewers_;
  WorkerDesk workers_;
};

}  // namespace tt::hub
