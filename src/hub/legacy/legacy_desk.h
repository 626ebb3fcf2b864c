#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "src/hub/legacy/disturbances.h"
#include "src/hub/legacy/update_encoder.h"
#include "src/hub/room/forwarder.h"
#include "src/hub/room/lease_keeper.h"
#include "src/hub/room/roster.h"
#include "src/hub/room/run_state.h"

namespace tt::hub {

/// Serves viewers of the legacy dialects. Translates their messages into requests of the native
/// protocol, and records into updates.
/// Thread: the hub's I/O thread only.
class LegacyDesk {
 public:
  /// All arguments outlive this object.
  LegacyDesk(const RoomOptions& options, Roster& roster, RunState& run, LeaseKeeper& keeper,
             const Forwarder& forwarder)
      : options_(options),
        roster_(roster),
        run_(run),
        keeper_(keeper),
        forwarder_(forwarder),
        encoder_(options.on_update_made) {}

  /// False if the message belongs to the native protocol.
  bool on_text(Client& client, Member& member, std::string_view text, Clock::time_point now);
  /// Takes the outcome of a request that this class sent.
  void finish(Client& client, Member& member, const Forwarder::Asker& asker,
              const base::Result<nlohmann::json>& outcome);
  /// Sends the updates that the encoder has finished.
  void take_updates();
  void tick(Clock::time_point now);

 private:
  using json = nlohmann::json;

  void on_message(Client& client, Member& member, json message, Clock::time_point now);
  void run_training_step(Client& client, Member& member, json message, Clock::time_point now);
  base::Status watch(Client& client, Member& member, const json& message, Clock::time_point now);
  std::vector<protocol::TrainerRequest> missing_requests(
      const Member& member, const json& plan,
      const std::vector<dialect::Disturbance>& disturbances) const;
  base::Status ask(const Client& client, Member& member,
                   std::vector<protocol::TrainerRequest> requests, Clock::time_point now);
  void start(Client& client, Member& member);
  void follow(const protocol::TrainerRequest& request, const json& result);
  Translation update_of(dialect::Dialect dialect, const SharedBytes& record);

  const RoomOptions& options_;
  Roster& roster_;
  RunState& run_;
  LeaseKeeper& keeper_;
  const Forwarder& forwarder_;
  dialect::UpdateEncoder encoder_;
};

}  // namespace tt::hub
