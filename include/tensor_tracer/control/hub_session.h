#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/config/hub_config.h"
#include "tensor_tracer/link/hub_client.h"
#include "tensor_tracer/link/hub_process.h"

namespace tt::control {

/// The run and its hub.
struct HubSessionOptions {
  std::string run_name;          // empty: the run's id
  std::string run_dir;           // empty: runs/<id>
  config::HubConfig hub = {};    // start() sets the run's id
  bool opens_browser = false;    // show the page in the user's browser
  std::string hub_program = {};  // path of tensor-tracer-hub; empty: beside the running program
};

/// The hub that a run started, for global rank 0: first its processes, then the connection to it.
/// When this object is destroyed, or this process dies, the hub sends the queued messages and ends.
class HubSession {
 public:
  /// Starts supervisor and hub, and waits until the page is served. Call it before MPI_Init.
  /// Error: the port is in use, or the run directory cannot be made.
  static base::Result<HubSession> start(HubSessionOptions options);

  /// The run's facts that the session has: id, name, start time, host.
  nlohmann::json facts() const;
  std::uint64_t run_id() const { return std::stoull(id_, nullptr, 16); }
  const link::HubInfo& info() const { return hub_; }

  /// Connects to the hub with all facts of the run, as the leader of the first of `stages` pipeline
  /// stages. `check` (see link::HubClientOptions) may be called until finish().
  void connect(nlohmann::json facts, link::HubClientOptions::Check check, int stages = 1);
  bool is_connected() const { return client_ != nullptr; }
  /// REQUIRES: connect().
  link::HubClient& client() { return *client_; }
  /// The file with the run's recording; empty if it could not be made. REQUIRES: the hub is ready.
  std::string recording() const;
  /// Sends the queued messages, for at most a second.
  void finish();

 private:
  HubSession() = default;

  std::string id_;  // 16 hex digits
  std::string name_;
  std::string start_time_;
  std::string record_dir_;
  bool hub_takes_traced_ = true;  // for the recording, alarms or the spike recorder
  std::chrono::milliseconds pause_timeout_{0};
  link::HubInfo hub_;
  std::unique_ptr<link::HubClient> client_;
};

}  // namespace tt::control
