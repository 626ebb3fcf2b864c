#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "src/hub/room/forwarder.h"
#include "src/hub/room/leaders.h"
#include "src/hub/room/lease.h"
#include "src/hub/room/metrics.h"
#include "src/hub/room/roster.h"
#include "src/hub/room/run_state.h"

namespace tt::hub {

/// The controller's lease. Passes the holder's requests on to the trainer. When the lease ends,
/// ends the pause and removes the programs without `keep`.
/// Thread: the hub's I/O thread only.
class LeaseKeeper {
 public:
  /// All arguments outlive this object.
  LeaseKeeper(const RoomOptions& options, Roster& roster, const Leaders& leaders,
              AuditLog& audit_log, Metrics& metrics, const RunState& run, Forwarder& forwarder)
      : options_(options),
        roster_(roster),
        leaders_(leaders),
        audit_log_(audit_log),
        metrics_(metrics),
        run_(run),
        forwarder_(forwarder),
        lease_(options.lease),
        last_held_(Clock::now()) {}

  const Lease& lease() const { return lease_; }
  /// Call this for any message of the holder.
  void renew(std::string_view session, Clock::time_point now) { lease_.renew(session, now); }
  void disconnected(std::string_view session) { lease_.disconnected(session); }

  base::Result<nlohmann::json> claim(const Client& client, const Member& member,
                                     const protocol::ClaimControl& request, Clock::time_point now);
  /// REQUIRES: the member holds the lease.
  nlohmann::json release(const Member& member);
  /// Passes the request `id` of a viewer on to the trainer. On an error the request was not passed
  /// on. REQUIRES: the member holds the lease, if the request needs it.
  base::Status forward(const Client& client, const Member& member, std::uint64_t id,
                       protocol::TrainerRequest request, Clock::time_point now);
  /// Ends a pause; `why` goes to the log.
  void continue_run(std::string_view why);
  /// Pauses the run for an alarm. This pause ends when somebody continues the run, or at `end`; if
  /// the holder of the lease has asked for a pause or a step, with that lease. `why` goes to the
  /// log.
  void pause_for_alarm(std::string_view why, Clock::time_point end);
  /// The run is paused for an alarm of an earlier hub.
  void continue_alarm_pause(Clock::time_point end) { alarm_pause_ = AlarmPause{.end = end}; }
  /// Nothing if no alarm has paused the run.
  std::optional<std::chrono::milliseconds> alarm_pause_left(Clock::time_point now) const;
  void tick(Clock::time_point now);

 private:
  void note(const protocol::TrainerRequest& request);
  void end_lease(std::string_view why);
  void revert_programs(std::string_view why);
  void ask_trainer(protocol::TrainerRequest request, std::string_view why);
  void end_alarm_pause(Clock::time_point now);
  void end_what_outlived_its_lease(Clock::time_point now);

  struct AlarmPause {
    Clock::time_point end;
    bool began = false;  // the trainer has said that it is paused
  };

  const RoomOptions& options_;
  Roster& roster_;
  const Leaders& leaders_;
  AuditLog& audit_log_;
  Metrics& metrics_;
  const RunState& run_;
  Forwarder& forwarder_;
  Lease lease_;
  bool pause_requested_ = false;  // a holder asked for a pause that has not ended
  std::optional<AlarmPause> alarm_pause_;
  bool revert_requested_ = false;  // a holder applied a program that ends with the lease
  Clock::time_point last_held_;    // when a session last held the lease
};

}  // namespace tt::hub
