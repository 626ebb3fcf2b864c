#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "src/cli/run_log.h"
#include "tensor_tracer/comm/launcher.h"
#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/control/hub_session.h"
#include "tensor_tracer/mesh/mesh.h"
#include "tensor_tracer/watchdog/watchdog.h"

namespace tt::cli {

/// What the watch knows of the run. All members outlive the watch.
struct WatchedRun {
  const config::TrainConfig& config;
  const comm::Launch& launch;
  const mesh::MeshShape& shape;
  const nlohmann::json& given;  // options as the user wrote them
  RunLog& log;
};

/// Watches the ranks of a run from before its first step to its end, and writes the flight record
/// if the run fails. Thread: the thread that runs the step, except where stated.
class RunWatch {
 public:
  /// `hub`: null on ranks other than 0, and if the run has none. Collective.
  RunWatch(const WatchedRun& run, const comm::ProcessGroup& world,
           const comm::CollectiveLog& collectives, control::HubSession* hub);
  /// The hub's client is connected: a failure is told to the page.
  void notify_page();
  /// This rank has failed, and the caller will end the run. Every rank writes its part of the
  /// flight record. Sends the hub the queued messages. Takes 4 s at most, except on a disk that
  /// hangs.
  void fail(const std::string& reason);
  /// The launcher ends this rank, and the caller will end its process. If the reason is that the
  /// process of another rank has died, this rank writes its part of the flight record, without the
  /// recording, for which the time is too short. Thread: any.
  void end_by_launcher();

 private:
  // What rank 0 tells the other ranks; empty texts without a run directory.
  struct Places {
    std::string board;
    std::string record;
    std::string hub_log;
    std::string recording;
  };
  Places share_places(const comm::ProcessGroup& world) const;
  watchdog::WatchdogOptions options(const comm::ProcessGroup& world);
  nlohmann::json configuration() const;
  /// Thread: that of the watchdog, or that of the step.
  void record(const watchdog::Alarm& alarm, const watchdog::RankStates& states, bool is_reporter);
  void print(const watchdog::Alarm& alarm, bool is_reporter) const;
  void notify_hub(const watchdog::Alarm& alarm);
  void write(const watchdog::Alarm& alarm, const watchdog::RankStates& states,
             bool is_reporter) const;
  std::string name_of(int rank) const { return mesh::describe(run_.shape, rank); }

  const WatchedRun run_;
  const comm::CollectiveLog& collectives_;
  control::HubSession* const hub_;
  const Places places_;
  std::mutex mutex_;
  bool tells_page_ = false;  // guarded by mutex_
  std::atomic<bool> is_in_haste_ = false;
  std::unique_ptr<watchdog::Watchdog> watchdog_;
};

}  // namespace tt::cli
