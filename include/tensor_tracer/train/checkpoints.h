#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/checkpoint/checkpoint_writer.h"
#include "tensor_tracer/checkpoint/tensor_store.h"
#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/nn/parameter.h"
#include "tensor_tracer/optim/adamw.h"
#include "tensor_tracer/train/groups.h"

namespace tt::train {

/// The state of one rank that a checkpoint holds, besides the numbers that follow from the step:
/// dropout, learning rate and the position in the data. All members outlive the object.
struct TrainState {
  const std::vector<nn::Parameter>& parameters;
  const std::vector<nn::Parameter>& trained;  // the optimizer changes them
  const optim::AdamW& optimizer;              // of `trained`, in the same order
};

/// Reads the weights into this rank's tensors, the main weights if the store has them; the caller
/// rounds them (nn::round_main_weights). Error: a tensor is missing or has another shape; some
/// tensors may be read by then.
base::Status load_weights(const checkpoint::TensorStore& store,
                          const std::vector<nn::Parameter>& parameters,
                          const comm::ProcessGroup& tensor);

/// Reads weights, as load_weights(), and AdamW's moments from a checkpoint of any mesh into this
/// rank's tensors.
/// Error: a tensor is missing or has another shape; some tensors may be read by then.
base::Status load_state(const checkpoint::TensorStore& store, const TrainState& state,
                        const comm::ProcessGroup& tensor);

/// Saves the state of a run. The step waits only for a copy of the tensors; a thread of each rank
/// writes them. Thread: the thread that runs the step.
class Checkpoints {
 public:
  using OnSaved = std::function<void(const base::Result<checkpoint::SavedCheckpoint>&)>;
  /// `groups` outlives the object. `on_saved`: called on rank 0 for every save, from save() or
  /// finish(). REQUIRES: config.save is a folder.
  Checkpoints(const config::CheckpointConfig& config, const Groups& groups, TrainState state,
              OnSaved on_saved);

  /// Copies the state after step `step` and starts to write it; first waits for the save before.
  /// `facts`: of the run, used on rank 0. `valid_loss`: of the same step. Collective over all
  /// ranks.
  void save(std::int64_t step, nlohmann::json facts, std::optional<double> valid_loss = {});
  /// Rank 0: reports a save that has ended meanwhile. Cheap.
  void poll();
  /// Waits for the last save. Returns false if it failed; then on_saved has the error. Collective
  /// over all ranks.
  bool finish();
  /// The step of the last save that was started; 0: none.
  std::int64_t last_step() const { return last_step_; }

 private:
  void report();
  void wait_for_save();
  std::vector<checkpoint::FileContents> copy_state() const;

  const Groups& groups_;
  const TrainState state_;
  const OnSaved on_saved_;
  checkpoint::CheckpointWriter writer_;
  std::int64_t last_step_ = 0;
  bool has_failed_ = false;  // the last save, on this rank
};

}  // namespace tt::train
