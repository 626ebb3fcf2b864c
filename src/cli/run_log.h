#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "src/cli/run_data.h"
#include "tensor_tracer/checkpoint/checkpoint_writer.h"
#include "tensor_tracer/comm/launcher.h"
#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/link/hub_process.h"
#include "tensor_tracer/mesh/mesh.h"
#include "tensor_tracer/train/trainer.h"

namespace tt::cli {

/// Prints the output of a run. Steps go to standard output, one line each, or as one moving line
/// with --progress-bar. With --log-format json all other output goes to standard error.
/// Thread: the thread that runs the step, except where stated.
class RunLog {
 public:
  /// Prints on global rank 0 only.
  RunLog(const config::TrainConfig& config, const comm::Launch& launch);
  void data(const RunData& data);
  void model(std::int64_t num_parameters, const mesh::MeshShape& shape, const comm::Launch& launch);
  void hub(const link::HubInfo& hub);
  /// `path`: the file of the recording; empty if the run is not recorded.
  void recording(const std::string& path);
  /// A hint about tracing, or what happened to the programs.
  void notice(const std::string& text);
  /// The checkpoint that the run resumes from.
  void resume(const std::string& checkpoint, std::int64_t step);
  /// The result of a save. An error goes to standard error.
  void saved(const base::Result<checkpoint::SavedCheckpoint>& saved);
  void step(const train::StepReport& report);
  /// A change of the run from the page, such as "paused by Ada after step 1969".
  void change(const std::string& text);
  /// Prints how far the run came, with which losses, how long it took, and how to see it again.
  /// `recording`: the file; empty if the run was not recorded.
  void end(const std::string& recording);
  /// The same to standard error, while the thread of the steps may be in a write to standard output
  /// that does not return: mpirun reads nothing while it ends its ranks. Thread: any.
  void end_at_once(const std::string& recording) const;
  /// The last completed step, also of the run before; 0: none. Thread: any.
  std::int64_t last_step() const;
  /// The last 1,000 lines of the run, each with its line feed: also lines of steps that were not
  /// printed. Thread: any.
  std::string recent() const;
  /// Keeps a line for recent() that somebody else prints. Thread: any.
  void keep(const std::string& line) const;
  /// Ends the moving line.
  void finish();
  /// The cost of tracing, printed when the run is over.
  void cost(const train::TracerCost& cost);

 private:
  void say(const std::string& line) const;
  std::string summary(const std::string& recording) const;
  void move_bar(const train::StepReport& report);
  std::string line(const train::StepReport& report) const;
  std::string time_left(const train::StepReport& report) const;

  const config::TrainConfig& config_;
  const bool is_first_;
  const bool on_terminal_;  // and no launcher, under which isatty is meaningless
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  mutable std::mutex mutex_;
  std::optional<train::StepReport> last_;   // guarded by mutex_
  std::optional<double> valid_loss_;        // guarded by mutex_
  mutable std::deque<std::string> recent_;  // guarded by mutex_
  std::int64_t first_step_ = 0;             // done by the run before
  double mean_step_ms_ = 0.0;               // of the last ten steps or so
  bool line_is_open_ = false;
};

}  // namespace tt::cli
