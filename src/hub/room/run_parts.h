#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "src/hub/alarms/alarm_desk.h"
#include "src/hub/room/audit_log.h"
#include "src/hub/room/forwarder.h"
#include "src/hub/room/leaders.h"
#include "src/hub/room/notices.h"
#include "src/hub/room/roster.h"
#include "src/hub/room/run_state.h"
#include "tensor_tracer/protocol/request.h"

namespace tt::hub {

/// Puts the run together from the leaders of its pipeline stages: shows viewers the facts of all,
/// and which stage is missing.
/// Thread: the hub's I/O thread only.
class RunParts {
 public:
  /// All arguments outlive this object.
  RunParts(Roster& roster, Leaders& leaders, RunState& run, AuditLog& audit_log, Notices& notices,
           Forwarder& forwarder, AlarmDesk& alarms)
      : roster_(roster),
        leaders_(leaders),
        run_(run),
        audit_log_(audit_log),
        notices_(notices),
        forwarder_(forwarder),
        alarms_(alarms) {}

  /// An error if a worker that says this hello does not fit to the run that is shown.
  base::Status check(const protocol::WorkerHello& hello) const;
  /// The worker leads its stage from now on, if it leads one. REQUIRES: check() has passed.
  void take(Client& client, const protocol::WorkerHello& hello, Clock::time_point now);
  /// The connection of a stage's leader ended. Only that of stage 0 ends the run.
  void lose(std::size_t stage, Clock::time_point now);
  /// Reports stages that are missing for long.
  void tick(Clock::time_point now);

 private:
  void lead_run(Client& client, const protocol::WorkerHello& hello, Clock::time_point now);
  void lead_part(Client& client, const protocol::WorkerHello& hello, Clock::time_point now);
  void replace(Client& client, const protocol::WorkerHello& hello, Clock::time_point now);
  void add_points_of_others(nlohmann::json& facts);
  void add_points_of(std::size_t stage, nlohmann::json& facts);
  void show_run(nlohmann::json facts);
  void show_parts();
  void lose_run();

  Roster& roster_;
  Leaders& leaders_;
  RunState& run_;
  AuditLog& audit_log_;
  Notices& notices_;
  Forwarder& forwarder_;
  AlarmDesk& alarms_;
};

}  // namespace tt::hub
