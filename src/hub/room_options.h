#pragma once

#include <chrono>
#include <cstddef>
#include <functional>

#include "src/hub/rate_limit.h"
#include "src/hub/send_queue.h"

namespace tt::hub {

struct RoomOptions {
  std::chrono::milliseconds lease{30'000};
  /// How long a viewer's request may wait for the trainer's answer.
  std::chrono::milliseconds request_timeout{300'000};
  /// How long a client may stay silent before its hello.
  std::chrono::milliseconds hello_timeout{10'000};
  /// Records kept for late viewers.
  std::size_t latest_bytes = std::size_t{256} << 20U;
  /// The trainer is a recording: its pauses need no lease.
  bool replay = false;
  SendQueueLimits queue = {};
  MessageLimit messages = {};  // of one viewer
  /// Called by another thread when Room::take_updates() has something to do.
  std::function<void()> on_update_made = [] {};
};

}  // namespace tt::hub
