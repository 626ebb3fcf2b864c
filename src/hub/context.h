#pragma once

#include "connection.h"
#include "room.h"
#include "tensor_tracer/hub/server.h"

namespace tt::hub {

/// What every connection of one server shares. Thread: the hub's I/O thread only; `options` any.
struct Context {
  explicit Context(const ServerOptions& server_options, const RoomOptions& room_options)
      : options(server_options), room(room_options) {}

  const ServerOptions options;
  Room room;
  FailureWindow auth_failures;
  const Clock::time_point started = Clock::now();
  Connections handshakes;  // HTTP, not a WebSocket yet
  Connections viewers;
  Connections workers;
};

}  // namespace tt::hub
