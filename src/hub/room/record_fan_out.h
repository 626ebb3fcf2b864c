#pragma once

#include <cstddef>
#include <optional>

#include "src/hub/alarms/alarm_desk.h"
#include "src/hub/room/audit_log.h"
#include "src/hub/room/leaders.h"
#include "src/hub/room/metrics.h"
#include "src/hub/room/notices.h"
#include "src/hub/room/roster.h"
#include "src/hub/room/run_state.h"

namespace tt::hub {

/// Passes the workers' records on to the viewers, the recorder, and the latest records for late
/// viewers.
/// Thread: the hub's I/O thread only.
class RecordFanOut {
 public:
  /// All arguments outlive this object.
  RecordFanOut(const RoomOptions& options, Roster& roster, Leaders& leaders, RunState& run,
               AuditLog& audit_log, Metrics& metrics, Notices& notices, AlarmDesk& alarms)
      : options_(options),
        roster_(roster),
        leaders_(leaders),
        run_(run),
        audit_log_(audit_log),
        metrics_(metrics),
        notices_(notices),
        alarms_(alarms) {}

  /// Takes the records of a greeted worker's message. Keeps large records in place, and copies
  /// small records.
  void take(const Client& worker, Member& member, const SharedBytes& message,
            Clock::time_point now);

 private:
  void take_records(std::optional<std::size_t> stage, Member& member, const SharedBytes& records,
                    Clock::time_point now);
  SharedBytes in_numbers_of_run(std::optional<std::size_t> stage, protocol::RecordView& record,
                                const SharedBytes& records) const;
  void show_record(const StoredRecord& record, Clock::time_point now);
  void notify_damage(Member& member, const base::Error& error, Clock::time_point now);

  const RoomOptions& options_;
  Roster& roster_;
  Leaders& leaders_;
  RunState& run_;
  AuditLog& audit_log_;
  Metrics& metrics_;
  Notices& notices_;
  AlarmDesk& alarms_;
};

}  // namespace tt::hub
