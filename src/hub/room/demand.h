#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>

#include "src/hub/room/audit_log.h"
#include "src/hub/room/roster.h"
#include "src/hub/room/run_state.h"

namespace tt::hub {

/// Entries of the run's plan, by index.
struct PlanEntries {
  bool all = false;
  std::set<std::uint32_t> some = {};

  bool any() const { return all || !some.empty(); }
  bool contains(std::uint32_t entry) const { return all || some.contains(entry); }
};

/// Informs the workers which entries of the plan have a use: the union of the viewers'
/// subscriptions, the recording's filter, and the alarms.
/// Thread: the hub's I/O thread only.
class Demand {
 public:
  /// All arguments outlive this object.
  Demand(Roster& roster, const RunState& run, const AuditLog& audit_log)
      : roster_(roster), run_(run), audit_log_(audit_log) {}

  /// Alarms compare the records of these entries, or the spike recorder keeps them.
  void set_alarms(PlanEntries entries);
  /// Call it after a viewer, its subscription, the recording, the plan or a worker has changed.
  /// Informs each worker that does not know the demand.
  void update();

 private:
  /// The params of the notification `viewers`.
  nlohmann::json describe() const;

  Roster& roster_;
  const RunState& run_;
  const AuditLog& audit_log_;
  PlanEntries alarms_;
};

}  // namespace tt::hub
