#pragma once

#include <string>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/base/scoped_fd.h"

namespace tt::hub {

struct SupervisorOptions {
  std::string program;   // the program to start: path of tensor-tracer-hub
  std::string run_dir;   // has run.json; without this folder no hub can be started again
  std::string bind;      // address besides loopback: see Access
  int port = 0;          // 0: the next free one from 8765
  bool linger = false;   // stay after the run has ended
  base::ScopedFd alive;  // its end of file means that the run has ended
  base::ScopedFd ready;  // gets one line of JSON: {"port": …} or an error with the id 0
};

/// Writes the error to `ready`, as supervise() does if the first start fails. Without a descriptor
/// it does nothing. Thread: any.
void notify_failure(const base::ScopedFd& ready, const base::Error& error);

/// Owns the listening sockets and starts the hub on them. When the hub dies, starts it again after
/// a pause of 0.1 s to 2 s. Returns when the run has ended (unless `linger` is set) or on SIGTERM
/// or SIGINT. The hub has then ended too, within 2 s; at the run's end a hub that still writes its
/// recording has 30 s. Also returns, so that the port refuses connections, if the hub has died and
/// the run directory no longer exists. If the first start fails, the error goes to `ready` and is
/// returned.
/// Thread: this is the only thread of the process. Blocks SIGCHLD, SIGTERM and SIGINT.
base::Status supervise(SupervisorOptions options);

}  // namespace tt::hub
