#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "src/hub/alarms/alarm_desk.h"
#include "src/hub/room/audit_log.h"
#include "src/hub/room/forwarder.h"
#include "src/hub/room/metrics.h"
#include "src/hub/room/roster.h"
#include "src/hub/room/run_state.h"
#include "tensor_tracer/protocol/message.h"

namespace tt::hub {

/// Takes the workers' messages about the run, and their records.
/// Thread: the hub's I/O thread only.
class WorkerDesk {
 public:
  /// All arguments outlive this object.
  WorkerDesk(Roster& roster, RunState& run, AuditLog& audit_log, Metrics& metrics,
             Forwarder& forwarder, AlarmDesk& alarms)
      : roster_(roster),
        run_(run),
        audit_log_(audit_log),
        metrics_(metrics),
        forwarder_(forwarder),
        alarms_(alarms) {}

  /// Handles the worker's first message. On an error the worker is not greeted.
  base::Status greet(Client& client, Member& member, const protocol::Request& message);
  /// `text`: the whole message.
  void on_notification(Client& client, Member& member, const protocol::Notification& notification,
                       std::string_view text, Clock::time_point now);
  /// Takes the records of a greeted worker's message. Keeps large records in place, and copies
  /// small records.
  void on_binary(Member& member, const SharedBytes& message, Clock::time_point now);
  /// The leader's connection ended.
  void lose_leader();

 private:
  void replace_leader(Client& client, const Member& member);
  void follow_leader(const protocol::Notification& notification, const SharedBytes& text,
                     Clock::time_point now);
  void pass_on(const protocol::Notification& notification, const SharedBytes& text);
  void take_records(Member& member, const SharedBytes& records, Clock::time_point now);
  void show_record(const StoredRecord& record, Clock::time_point now);
  void notify_damage(Member& member, const base::Error& error, Clock::time_point now);

  Roster& roster_;
  RunState& run_;
  AuditLog& audit_log_;
  Metrics& metrics_;
  Forwarder& forwarder_;
  AlarmDesk& alarms_;
};

}  // namespace tt::hub
