#pragma once

#include <string>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/base/scoped_fd.h"

namespace tt::hub {

struct SupervisorOptions {
  std::string program;   // what to start: path of tensor-tracer-hub
  std::string run_dir;   // where it reads run.json; without it no hub can be started again
  std::string bind;      // besides loopback: see Access
  int port = 0;          // 0: the next free one from 8765
  bool linger = false;   // stay when the run has ended
  base::ScopedFd alive;  // its end of file means that the run has ended
  base::ScopedFd ready;  // gets one line of JSON: {"port": …} or an error with the id 0
};

/// Writes the error to `ready`, as supervise() does when the first start fails. Without a
/// descriptor it does nothing. Thread: any.
void notify_failure(const base::ScopedFd& ready, const base::Error& error);

/// Owns the listening sockets, starts the hub on them and starts it again, after a pause of 0.1 s
/// to 2 s, whenever it dies. Returns when the run has ended (unless it lingers) or on SIGTERM or
/// SIGINT; the hub has ended then too, within 2 s, but for one that still writes its recording at
/// the run's end: within 30 s. It also ends, and the port refuses, where the hub has died and the
/// run directory is gone. If the first start fails, the error goes to
/// `ready` and is returned.
/// Thread: the process has this one only. Blocks SIGCHLD, SIGTERM and SIGINT.
base::Status supervise(SupervisorOptions options);

}  // namespace tt::hub
