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
#include "tensor_tracer/hub/alarms.h"
#include "tensor_tracer/record/recorder.h"

namespace tt::hub {

/// A recorded run that takes the place of a trainer.
struct ReplayOptions {
  std::string path;
  std::string run_id;  // 16 hex digits; empty: the newest run
  double speed = 1;    // 1: the recorded pace
  bool paused = false;
};

struct ServerOptions {
  std::string run_id;        // 16 hex digits; part of the cookie's name
  std::string token;         // for viewers that may control
  std::string viewer_token;  // for viewers that only view
  std::string worker_token;  // for leaders
  Access access = {};
  std::string page_dir;  // the page's files; empty or absent: only the sockets are served
  std::chrono::milliseconds lease{30'000};
  std::chrono::milliseconds request_timeout{300'000};
  /// A client that sends nothing for longer than this, and answers no ping, is disconnected.
  std::chrono::milliseconds idle_timeout{30'000};
  /// The time in which a connection must become a WebSocket or send its next HTTP request.
  std::chrono::milliseconds handshake_timeout{5'000};
  /// If a running trainer sends nothing for longer than this, /readyz reports it.
  std::chrono::milliseconds ready_timeout{300'000};
  /// How to record the run; nothing: it is not recorded.
  std::optional<record::RecorderOptions> recorder = {};
  bool needs_recorder = true;              // false: a recorder that cannot open is only an alarm
  std::vector<base::Error> failures = {};  // earlier ones, sent to all viewers
  AlarmSetup alarms = {};
  std::optional<ReplayOptions> replay = {};  // replaces the recorder
  std::vector<std::string> compare = {};     // other recordings, whose history is served too
  std::string runs_dir = {};                 // folder whose runs the page offers too; empty: none
  std::size_t max_viewers = 64;
  std::size_t max_workers = 256;    // a separate limit, so viewers never exclude a leader
  std::size_t max_handshakes = 64;  // connections that are not (yet) a WebSocket
};

/// The port that a listening socket is bound to.
base::Result<int> port_of(const base::ScopedFd& listener);

/// Opens listening sockets with one port on 127.0.0.1, on ::1 if this machine has it, and on `bind`
/// (see Access). Port 0 takes the first port from 8765 that is free on all of them. The error's
/// code is "port_in_use" if this is the reason.
base::Result<std::vector<base::ScopedFd>> open_listeners(const std::string& bind, int port);

/// Serves the page, viewers and workers on `listeners` until SIGTERM or SIGINT. Then sends the
/// queued messages and returns within 2 s. Calls `on_ready` once, just before it accepts
/// connections. An error of one connection ends only this connection.
/// Thread: everything runs on the calling thread.
base::Status serve(std::vector<base::ScopedFd> listeners, const ServerOptions& options,
                   const std::function<void()>& on_ready);

}  // namespace tt::hub
