#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "src/hub/alarms/alarm_file.h"
#include "src/hub/alarms/projection_book.h"
#include "src/hub/alarms/spike_recorder.h"
#include "src/hub/room/audit_log.h"
#include "src/hub/room/demand.h"
#include "src/hub/room/lease_keeper.h"
#include "src/hub/room/roster.h"
#include "src/hub/room/run_state.h"
#include "tensor_tracer/protocol/record.h"
#include "tensor_tracer/protocol/request.h"

namespace tt::hub {

/// The alarms of the run: answers the requests about them, compares each step and record, and
/// reports an alarm that fires or is cleared to viewers, recording, log, trainer and calls. Tells
/// viewers and recording the means of projections, which alarms follow too.
/// Thread: the hub's I/O thread only.
class AlarmDesk {
 public:
  static constexpr std::size_t kMaxAlarms = 32;

  /// All arguments outlive this object.
  AlarmDesk(const RoomOptions& options, Roster& roster, const Leaders& leaders, AuditLog& audit_log,
            const RunState& run, LeaseKeeper& keeper, Demand& demand);

  /// REQUIRES: the member holds the lease.
  base::Result<nlohmann::json> set(const Member& member, const protocol::SetAlarm& rule);
  base::Result<nlohmann::json> remove(const Member& member, const protocol::RemoveAlarm& request);
  /// All alarms with their state, by name.
  nlohmann::json list() const;
  AlarmSurvey survey() const;
  /// The newest means of projections.
  std::vector<ProjectionMean> projections() const { return projections_.latest(); }

  /// The run's facts, or its plan, have changed.
  void follow_run();
  /// `bytes`: the whole record.
  void take_record(const protocol::RecordView& record, const SharedBytes& bytes);
  /// The records of a message have been taken. A step is told before its last records arrive, if
  /// they wait in the trainer.
  void end_records();
  /// `step`: params of the leader's `step` notification; null if the run rests.
  void end_step(const nlohmann::json& step, Clock::time_point now);
  /// Shows an `alarm`, `alarms` or `projections` event of a replayed run.
  void replay(std::string_view event, const nlohmann::json& params);
  void tick(Clock::time_point now);
  /// The run ends: what the spike recorder still has to write is written now.
  void finish();
  /// The spike recorder has written a recording, or failed to.
  void report_spike(const SpikeRecorder::Written& written);

 private:
  void load();
  void update_demand();
  void warm(Alarm& alarm) const;
  void tell_waiting(const std::string& name, const base::Error& reason) const;
  void report(const Alarm& alarm, const AlarmChange& change, Clock::time_point now);
  void print(std::string_view change, const std::string& name) const;
  void notify_viewers(nlohmann::json params, const Member* member);
  void save(Clock::time_point now);
  void notify_projections();

  const RoomOptions& options_;
  Roster& roster_;
  const Leaders& leaders_;
  AuditLog& audit_log_;
  const RunState& run_;
  LeaseKeeper& keeper_;
  Demand& demand_;
  Alarms alarms_;
  ProjectionBook projections_;
  std::map<std::string, nlohmann::json> replayed_;  // as described, by name; of a replay
  std::string run_id_;                              // of the facts that were last followed
  std::optional<std::uint64_t> step_;               // the last one that has ended
  std::uint64_t fired_ = 0;
  bool are_new_ = false;  // the alarms of the start, which no event has told yet
  bool must_save_ = false;
  Clock::time_point saved_;
};

}  // namespace tt::hub
