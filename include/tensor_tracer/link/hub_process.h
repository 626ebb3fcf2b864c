#pragma once

#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/base/scoped_fd.h"

namespace tt::link {

struct HubStart {
  std::string program;   // path of tensor-tracer-hub; empty: next to the running program
  std::string run_dir;   // made if it does not exist
  std::string run_id;    // 16 hex digits
  std::string page_dir;  // empty: the hub's default
  int port = 8765;       // 0: the next free one from 8765
  bool linger = false;   // the hub stays when the run has ended
  double lease_seconds = 30;
  bool viewers_need_token = true;
  std::vector<std::string> allow_origins = {};  // of pages besides the hub's own
  std::vector<std::string> flags = {};          // more of the hub's, such as --record DIR
};

struct HubInfo {
  std::string url;       // http://127.0.0.1:8765/
  std::string page_url;  // the same with #token=… if one is needed: for the user's terminal, never
                         // for a log
  int port = 0;              // the one that was taken
  std::string run_dir;       // as given
  std::string token_path;    // <run-dir>/token
  std::string open_path;     // <run-dir>/open.html, which leads a browser to page_url
  std::string worker_token;  // for HubClient
  base::ScopedFd alive;      // keep it as long as the run lives: closing it ends the hub
};

/// Starts the hub of a run in a process session of its own, under a supervisor that starts it again
/// when it dies, and returns once it serves. Writes token, worker_token (if absent) and open.html
/// into the run directory. The hub ends within 2 s of the end of this process, whatever ended it.
/// Call it before MPI_Init; it neither forks nor uses a shell.
/// Thread: any. Blocks until the hub is ready, 12 s at most. The error's code is "port_in_use"
/// or "run_dir_in_use" where that is the reason.
base::Result<HubInfo> start_hub(const HubStart& start);

}  // namespace tt::link
