#pragma once

#include <string_view>

#include "src/hub/alarms/alarm_desk.h"
#include "src/hub/room/audit_log.h"
#include "src/hub/room/leaders.h"
#include "src/hub/room/metrics.h"
#include "src/hub/room/roster.h"
#include "src/hub/room/run_parts.h"
#include "src/hub/room/run_state.h"
#include "tensor_tracer/protocol/message.h"

namespace tt::hub {

/// Takes the workers' hellos and events.
/// Thread: the hub's I/O thread only.
class WorkerDesk {
 public:
  /// All arguments outlive this object.
  WorkerDesk(Roster& roster, Leaders& leaders, RunParts& parts, RunState& run, AuditLog& audit_log,
             Metrics& metrics, AlarmDesk& alarms, Demand& demand)
      : roster_(roster),
        leaders_(leaders),
        parts_(parts),
        run_(run),
        audit_log_(audit_log),
        metrics_(metrics),
        alarms_(alarms),
        demand_(demand) {}

  /// Handles the worker's first message. On an error the worker is not greeted.
  base::Status greet(Client& client, Member& member, const protocol::Request& message,
                     Clock::time_point now);
  /// `text`: the whole message.
  void on_notification(Client& client, Member& member, const protocol::Notification& notification,
                       std::string_view text, Clock::time_point now);

 private:
  void follow_trainer(const protocol::Notification& notification, const SharedBytes& text,
                      Clock::time_point now);
  void pass_on(const protocol::Notification& notification, const SharedBytes& text);

  Roster& roster_;
  Leaders& leaders_;
  RunParts& parts_;
  RunState& run_;
  AuditLog& audit_log_;
  Metrics& metrics_;
  AlarmDesk& alarms_;
  Demand& demand_;
};

}  // namespace tt::hub
