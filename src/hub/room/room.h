#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/hub/alarms/alarm_desk.h"
#include "src/hub/room/audit_log.h"
#include "src/hub/room/client.h"
#include "src/hub/room/demand.h"
#include "src/hub/room/forwarder.h"
#include "src/hub/room/host.h"
#include "src/hub/room/leaders.h"
#include "src/hub/room/lease_keeper.h"
#include "src/hub/room/metrics.h"
#include "src/hub/room/notices.h"
#include "src/hub/room/record_fan_out.h"
#include "src/hub/room/roster.h"
#include "src/hub/room/run_parts.h"
#include "src/hub/room/run_state.h"
#include "src/hub/room/viewer_desk.h"
#include "src/hub/room/worker_desk.h"
#include "tensor_tracer/protocol/message.h"

namespace tt::hub {

/// All connected clients, and the rules of docs/protocol.md between them. Reads each message and
/// gives it to the class that answers it. Does not use sockets.
/// tests/e2e/echo_hub.cpp overrides the handling of messages.
/// Thread: the hub's I/O thread only. Owner: it owns no client; each client leaves before it ends.
class Room : public Host {
 public:
  explicit Room(const RoomOptions& options);
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  /// `recorder` outlives the room. `path` is sent to viewers.
  void record_to(record::Recorder& recorder, std::string path) {
    audit_log_.start(recorder, std::move(path));
    demand_.update();
  }
  /// From now on nothing is recorded.
  void end_recording() {
    alarms_.finish();
    audit_log_.end();
  }
  /// Shows the run of an earlier hub until its trainer connects again.
  void restore(nlohmann::json facts, const std::vector<nlohmann::json>& steps);
  /// The run is now at another time: `steps` are the steps that late viewers see as its past.
  void replace_past(const std::vector<nlohmann::json>& steps);

  /// Makes the queue of a new client.
  SendQueue make_queue() { return {options_.queue, run_.latest()}; }

  void join(Client& client, Clock::time_point now, bool may_be_silent = false) override {
    roster_.join(client, now, may_be_silent);
  }
  /// `successor` takes the place of a client that has not been greeted, with its session.
  void replace(Client& client, Client& successor) { roster_.replace(client, successor); }
  void leave(Client& client) override;
  void on_text(Client& client, std::string_view text, Clock::time_point now) override;
  /// Keeps large records in place, and copies small records. The second form always copies.
  void on_binary(Client& client, const SharedBytes& message, Clock::time_point now) override;
  void on_binary(Client& client, std::string_view bytes, Clock::time_point now);
  /// The global rank of a worker after its hello.
  std::optional<std::uint64_t> rank_of(Client& client);
  /// Ends requests and clients that have timed out. Call it about ten times a second.
  void tick(Clock::time_point now);
  /// Reports a failure that does not end the run, such as of the disk. Viewers and the trainer get
  /// the report now; clients that connect later get it too.
  void raise_alarm(const base::Error& error) { notices_.raise_alarm(error); }
  /// Does the same if the recording could not be opened.
  void go_without_recording(const base::Error& error);

  void report_spike(const SpikeRecorder::Written& written) { alarms_.report_spike(written); }

  Metrics& metrics() { return metrics_; }
  Survey survey(Clock::time_point now) const;
  /// An error if no trainer is connected, if a running trainer has sent nothing for `timeout`, or
  /// if a stage has no leader.
  base::Status ready(Clock::time_point now, std::chrono::milliseconds timeout);

 private:
  bool admit(Client& client, Member& member, std::string_view text, Clock::time_point now);
  void on_request(Client& client, Member& member, const protocol::Request& request,
                  Clock::time_point now);
  void greet(Client& client, Member& member, const protocol::Request& request,
             Clock::time_point now);
  /// Error: this client may not send this message.
  base::Status on_other(Client& client, Member& member, protocol::Message message,
                        std::string_view text, Clock::time_point now);
  void finish(const Forwarder::Asker& asker, base::Result<nlohmann::json> outcome);

  const RoomOptions options_;
  Metrics metrics_;
  RunState run_;
  AuditLog audit_log_;
  Roster roster_;
  Leaders leaders_;
  Demand demand_;
  Notices notices_;
  Forwarder forwarder_;
  LeaseKeeper keeper_;
  AlarmDesk alarms_;
  ViewerDesk viewers_;
  RunParts parts_;
  WorkerDesk workers_;
  RecordFanOut records_;
};

}  // namespace tt::hub
