#pragma once

#include <string>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/base/scoped_fd.h"
#include "tensor_tracer/config/hub_config.h"

namespace tt::link {

struct HubStart {
  std::string program;  // path of tensor-tracer-hub; empty: next to the running program
  std::string run_dir;  // made if it does not exist
  config::HubConfig config = {};
};

struct HubInfo {
  std::string url;       // http://127.0.0.1:8765/
  std::string page_url;  // the same with #token=… if one is needed: for the user's terminal, never
                         // for a log
  int port = 0;              // the one that was taken
  std::string token_path;    // <run-dir>/token
  std::string open_path;     // <run-dir>/open.html, which leads a browser to page_url
  std::string worker_token;  // for HubClient
  base::ScopedFd alive;      // keep it as long as the run lives: closing it ends the hub
};

/// Starts the hub of a run in a new process session, under a supervisor that starts it again
/// when it dies, and returns once it serves. Locks the run directory, which the supervisor then
/// keeps locked, and writes token, worker_token (if absent), run.json and open.html into it. The
/// hub ends within 2 s of the end of this process, whatever ended it. Call it before MPI_Init; it
/// neither forks nor uses a shell. Thread: any. Blocks until the hub is ready, 12 s at most. The
/// error's code is "port_in_use" or "run_dir_in_use" where that is the reason.
base::Result<HubInfo> start_hub(const HubStart& start);

}  // namespace tt::link
