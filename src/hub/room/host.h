#pragma once

#include <string_view>

#include "src/hub/room/client.h"

namespace tt::hub {

/// Takes the messages of connected clients: the room, or a translator in front of it.
/// Thread: the hub's I/O thread only.
class Host {
 public:
  Host() = default;
  virtual ~Host() = default;
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  /// `may_be_silent`: the client need not say hello in time.
  virtual void join(Client& client, Clock::time_point now, bool may_be_silent) = 0;
  virtual void leave(Client& client) = 0;
  virtual void on_text(Client& client, std::string_view text, Clock::time_point now) = 0;
  virtual void on_binary(Client& client, const SharedBytes& message, Clock::time_point now) = 0;
};

}  // namespace tt::hub
