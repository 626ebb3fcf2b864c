#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/hub/room/audit_log.h"
#include "src/hub/room/demand.h"
#include "src/hub/room/leaders.h"
#include "src/hub/room/roster.h"
#include "tensor_tracer/base/result.h"

namespace tt::hub {

/// Tells viewers, the trainer and the audit trail about failures that do not end the run.
/// Thread: the hub's I/O thread only.
class Notices {
 public:
  /// All arguments outlive this object.
  Notices(Roster& roster, const Leaders& leaders, AuditLog& audit_log, Demand& demand)
      : roster_(roster), leaders_(leaders), audit_log_(audit_log), demand_(demand) {}

  /// Sends a `log` event to all viewers and the audit trail.
  void log(std::string_view level, const std::string& message);
  /// Reports a failure that lasts, such as of the disk. Viewers and the trainer get the report now;
  /// clients that connect later get it from repeat_alarms().
  void raise_alarm(const base::Error& error);
  /// Sends the alarms to a client that was just greeted: a viewer, or the trainer.
  void repeat_alarms(Client& client) const;
  /// Informs viewers of the recorder's losses, at most once a second, and of the recording's size,
  /// at most every 5 seconds.
  void tick(Clock::time_point now);

 private:
  void report_losses(Clock::time_point now);
  void report_size(Clock::time_point now);

  Roster& roster_;
  const Leaders& leaders_;
  AuditLog& audit_log_;
  Demand& demand_;
  std::vector<std::string> alarms_;  // only a few: each comes from another part
  Clock::time_point loss_told_;
  Clock::time_point size_told_;
  std::uint64_t told_bytes_ = 0;  // of the recording
};

}  // namespace tt::hub
