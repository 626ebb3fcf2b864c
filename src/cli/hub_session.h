#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/link/hub_client.h"

namespace tt::cli {

/// The hub that a run started, as global rank 0 sees it: its processes, then the connection to it.
/// When it is destroyed, or its process dies, the hub drains and ends.
class HubSession {
 public:
  /// Starts supervisor and hub and waits until the page is served. Before MPI_Init.
  /// Error: the port is in use, the run directory cannot be made.
  static base::Result<HubSession> start(const config::TrainConfig& config);
  HubSession(HubSession&&) noexcept;
  HubSession& operator=(HubSession&&) = delete;
  ~HubSession();

  /// The run's facts that the session knows: id, name, start time, host.
  nlohmann::json facts() const;
  std::uint64_t run_id() const;
  const std::string& url() const;
  const std::string& token_path() const;
  const std::string& url_with_token() const;
  /// What to type on one's own machine to reach the page; empty if the user sits at this one.
  std::string ssh_command() const;

  /// See link::HubClientOptions.
  using Check = link::HubClientOptions::Check;
  /// Connects to the hub with the run's whole facts; from then on sink and control_source are
  /// there. `check` may be called until finish().
  void connect(nlohmann::json facts, Check check);
  trace::TraceSink* sink();
  trace::ControlSource* control_source();
  /// Sends what is queued, for at most a second.
  void finish();

 private:
  struct State;
  explicit HubSession(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tt::cli
