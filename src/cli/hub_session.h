#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/link/hub_client.h"
#include "tensor_tracer/link/hub_process.h"

namespace tt::cli {

/// The hub that a run started, as global rank 0 sees it: its processes, then the connection to it.
/// When it is destroyed, or its process dies, the hub drains and ends.
class HubSession {
 public:
  /// Starts supervisor and hub and waits until the page is served. Before MPI_Init.
  /// Error: the port is in use, the run directory cannot be made.
  static base::Result<HubSession> start(const config::TrainConfig& config);

  /// The run's facts that the session knows: id, name, start time, host.
  nlohmann::json facts() const;
  std::uint64_t run_id() const { return std::stoull(id_, nullptr, 16); }
  const link::HubInfo& info() const { return hub_; }

  /// Connects to the hub with the run's whole facts. `check`, see link::HubClientOptions, may be
  /// called until finish().
  void connect(nlohmann::json facts, link::HubClientOptions::Check check);
  /// REQUIRES: connect().
  link::HubClient& client() { return *client_; }
  /// Sends what is queued, for at most a second.
  void finish();

 private:
  HubSession() = default;

  std::string id_;  // 16 hex digits
  std::string name_;
  std::string start_time_;
  std::chrono::milliseconds pause_timeout_{0};
  link::HubInfo hub_;
  std::unique_ptr<link::HubClient> client_;
};

}  // namespace tt::cli
