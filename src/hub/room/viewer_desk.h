#pragma once

#include <nlohmann/json.hpp>

#include "src/hub/alarms/alarm_desk.h"
#include "src/hub/room/demand.h"
#include "src/hub/room/lease_keeper.h"
#include "src/hub/room/notices.h"
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
  ViewerDesk(Roster& roster, const Leaders& leaders, RunState& run, const Notices& notices,
             LeaseKeeper& keeper, AlarmDesk& alarms, AuditLog& audit_log, Demand& demand)
      : roster_(roster),
        leaders_(leaders),
        run_(run),
        notices_(notices),
        keeper_(keeper),
        alarms_(alarms),
        audit_log_(audit_log),
        demand_(demand) {}

  /// Handles the viewer's first message. On an error the viewer is not greeted.
  base::Status greet(Client& client, Member& member, const protocol::Request& message,
                     Clock::time_point now);
  void on_request(Client& client, Member& member, const protocol::Request& message,
                  Clock::time_point now);
  /// An error if it is not a valid acknowledgement.
  base::Status on_notification(Client& client, Member& member,
                               const protocol::Notification& notification);

 private:
  /// The answer to a viewer's hello.
  nlohmann::json describe(const Client& client, const Member& member) const;
  base::Result<nlohmann::json> answer(Client& client, Member& member,
                                      const protocol::HubRequest& request, Clock::time_point now);
  base::Result<nlohmann::json> keep_run(const Member& member);
  base::Result<nlohmann::json> subscribe(Client& client, Member& member,
                                         const protocol::Subscribe& request);

  Roster& roster_;
  const Leaders& leaders_;
  RunState& run_;
  const Notices& notices_;
  LeaseKeeper& keeper_;
  AlarmDesk& alarms_;
  AuditLog& audit_log_;
  Demand& demand_;
};

}  // namespace tt::hub
