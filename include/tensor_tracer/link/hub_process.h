#pragma once

#include <string>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/base/scoped_fd.h"
#include "tensor_tracer/config/hub_config.h"

namespace tt::link {

struct HubStart {
  std::string program;  // path of tensor-tracer-hub; empty: beside the running program
  std::string run_dir;  // made if it does not exist
  config::HubConfig config = {};
};

struct HubInfo {
  std::string url;       // http://127.0.0.1:8765/
  std::string page_url;  // the same with #token=… if one is needed: for the user's terminal, never
                         // for a log
  int port = 0;              // the port in use
  int pid = 0;               // of the supervisor, a child of this process
  std::string token_path;    // <run-dir>/token
  std::string open_path;     // <run-dir>/open.html, which leads a browser to page_url
  std::string worker_token;  // for HubClient
  base::ScopedFd alive;      // keep it open while the run lives: closing it ends the hub
};

/// Starts the hub of a run in a new process session, and returns once the hub serves. A supervisor
/// starts the hub again if the hub dies. Locks the run directory; the supervisor then keeps it
/// locked. Writes token, worker_token (if absent), run.json and open.html into the directory. The
/// hub ends within 2 s of the end of this process, for any cause. Call this before MPI_Init;
/// it neither forks nor uses a shell. Thread: any. Blocks until the hub is ready, 12 s at most. The
/// error's code is "port_in_use" or "run_dir_in_use" if this is the reason.
base::Result<HubInfo> start_hub(const HubStart& start);

}  // namespace tt::link
