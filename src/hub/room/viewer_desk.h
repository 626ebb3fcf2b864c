#pragma once

#include <nlohmann/json.hpp>

#include "src/hub/alarms/alarm_desk.h"
#include "src/hub/room/lease_keeper.h"
#include "src/hub/room/roster.h"
#include "src/hub/room/run_state.h"
#include "tensor_tracer/protocol/message.h"
#include "tensor_tracer/protocol/request.h"

namespace tt::hub {

/// Answers the viewers.
/// Thread: the hub's I/O thread only.
class ViewerDesk {
 public:
  /// All arguments outlive this object.
  ViewerDesk(Roster& roster, RunState& run, LeaseKeeper& keeper, AlarmDesk& alarms,
             AuditLog& audit_log)
      : roster_(roster), run_(run), keeper_(keeper), alarms_(alarms), audit_log_(audit_log) {}

  /// Handles the viewer's first message. On an error the viewer is not greeted.
  base::Status greet(Client& client, Member& member, const protocol::Request& message,
                     Clock::time_point now);
  void on_request(Client& client, Member& member, const protocol::Request& message,
                  Clock::time_point now);
  /// An error if it is not a valid acknowledgement.
  base::Status on_notification(Client& client, Member& member,
                               const protocol::Notification& notification);

 private:
  base::Result<nlohmann::json> answer(Client& client, Member& member,
                                      const protocol::HubRequest& request, Clock::time_point now);
  base::Result<nlohmann::json> keep_run(const Member& member);
  base::Result<nlohmann::json> subscribe(Client& client, Member& member,
                                         const protocol::Subscribe& request);

  Roster& roster_;
  RunState& run_;
  LeaseKeeper& keeper_;
  AlarmDesk& alarms_;
  AuditLog& audit_log_;
};

}  // namespace tt::hub
