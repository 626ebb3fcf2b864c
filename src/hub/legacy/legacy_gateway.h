#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string_view>

#include "src/hub/legacy/legacy_session.h"
#include "src/hub/legacy/update_encoder.h"
#include "src/hub/room/host.h"
#include "src/hub/room/rate_limit.h"
#include "src/hub/room/room.h"

namespace tt::hub {

/// Stands in front of the room. A viewer whose first message belongs to a legacy dialect gets a
/// session that is a native viewer of the room; all other clients speak with the room.
/// Thread: the hub's I/O thread only.
class LegacyGateway : public Host {
 public:
  /// `room` outlives it. `ask_for_work` is called, from any thread, when work() has something to
  /// do. It must not call the gateway.
  LegacyGateway(Room& room, std::function<void()> ask_for_work)
      : room_(room), ask_for_work_(ask_for_work), encoder_(std::move(ask_for_work)) {}

  void join(Client& client, Clock::time_point now, bool may_be_silent) override;
  void leave(Client& client) override;
  void on_text(Client& client, std::string_view text, Clock::time_point now) override;
  void on_binary(Client& client, const SharedBytes& message, Clock::time_point now) override;
  /// Lets the sessions take the room's messages and the updates that are made.
  void work();

 private:
  struct Viewer {
    MessageGate gate;
    std::unique_ptr<dialect::LegacySession> session = nullptr;  // null: not chosen yet
  };

  bool admit(Client& client, Viewer& viewer, Clock::time_point now);
  void on_message(Client& client, Viewer& viewer, nlohmann::json message);

  Room& room_;
  const std::function<void()> ask_for_work_;
  dialect::UpdateEncoder encoder_;
  std::map<Client*, Viewer> viewers_;  // of a legacy dialect, or of a dialect not known yet
};

}  // namespace tt::hub
