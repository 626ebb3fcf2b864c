#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/base/scoped_fd.h"
#include "tensor_tracer/hub/access.h"
#include "tensor_tracer/record/recorder.h"

namespace tt::hub {

/// A recorded run in the place of a trainer.
struct ReplayOptions {
  std::string path;
  std::string run_id;  // 16 hex digits; empty: the newest one
  double speed = 1;    // times the recorded pace
  bool paused = false;
};

struct ServerOptions {
  std::string run_id;        // 16 hex digits; names the cookie
  std::string token;         // of viewers that may control
  std::string viewer_token;  // of viewers that may not
  std::string worker_token;  // of leader ranks
  Access access = {};
  std::string page_dir;  // the page's files; empty or absent: only the sockets are served
  std::chrono::milliseconds lease{30'000};
  std::chrono::milliseconds request_timeout{300'000};
  /// A client that is silent for longer, and answers no ping, is cut off.
  std::chrono::milliseconds idle_timeout{30'000};
  /// How long a connection may take to become a WebSocket, or to send its next HTTP request.
  std::chrono::milliseconds handshake_timeout{5'000};
  /// How long a trainer that should be running may say nothing until /readyz says so.
  std::chrono::milliseconds ready_timeout{300'000};
  /// What is kept of the run; nothing: no history.
  std::optional<record::RecorderOptions> recorder = {};
  bool needs_recorder = true;                // else one that cannot be opened is an alarm
  std::vector<base::Error> alarms = {};      // what has failed before, told to all viewers
  std::optional<ReplayOptions> replay = {};  // instead of a recorder
  std::vector<std::string> compare = {};     // other recordings, whose history is served too
  std::size_t max_viewers = 64;
  std::size_t max_workers = 256;    // counted apart: viewers never keep a leader rank out
  std::size_t max_handshakes = 64;  // connections that are no WebSocket, or not yet
};

/// The port that a listening socket is bound to.
base::Result<int> port_of(const base::ScopedFd& listener);

/// Opens listening sockets of one port on 127.0.0.1, on ::1 where this machine has it, and on
/// `bind` (see Access). Port 0 takes the next from 8765 that is free on all of them. The error's
/// code is "port_in_use" where that is the reason.
base::Result<std::vector<base::ScopedFd>> open_listeners(const std::string& bind, int port);

/// Serves the page, viewers and workers on `listeners` until SIGTERM or SIGINT; then drains and
/// returns within 2 s. Calls `on_ready` once, when it is about to accept. Errors that concern one
/// connection end that connection only.
/// Thread: everything happens on the calling one.
base::Status serve(std::vector<base::ScopedFd> listeners, const ServerOptions& options,
                   const std::function<void()>& on_ready);

}  // namespace tt::hub
