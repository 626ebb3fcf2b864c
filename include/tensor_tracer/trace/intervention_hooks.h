#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/points/place_table.h"
#include "tensor_tracer/protocol/request.h"
#include "tensor_tracer/trace/plan.h"

namespace tt::trace {

/// Programs as they travel from global rank 0 to every rank.
struct ProgramChanges {
  std::string text;       // JSON; empty: nothing changed
  FileContents contents;  // of the files that programs name which are new to the ranks
};

/// What changes values inside the model while it runs, one for each rank: programs in force, the
/// same on every rank. Whatever goes wrong in a program is counted and told, and never reaches
/// training. Thread: the thread that runs the step.
///
///     if (hooks.begin_forward(scope, tokens)) … x = hooks.at_point(place, x) …
///     loss.backward();            // gradients are changed by hooks
///     hooks.end_pass();
class InterventionHooks {
 public:
  virtual ~InterventionHooks() = default;

  /// True if some program acts in this forward: the one branch of a place without. `tokens` int64
  /// [batch, sequence].
  virtual bool begin_forward(const ForwardScope& scope, const at::Tensor& tokens) = 0;
  /// Whether at_point() has something to do there, now or in the backward. REQUIRES:
  /// begin_forward() was true.
  bool acts_at(const points::PlaceKey& place) const { return acts_[place.index]; }
  /// What the forward goes on with instead of `local`, this rank's shard of the place; itself where
  /// nothing is changed. Collective along the tensor axis.
  virtual at::Tensor at_point(const points::PlaceKey& place, const at::Tensor& local) = 0;
  /// Some program reads this place, which is computed only to be read.
  virtual bool reads(const points::PlaceKey& place) const = 0;
  /// Some program writes this place, so that the forward must go on with a value of it.
  virtual bool writes(const points::PlaceKey& place) const = 0;
  /// The layer is left out. Collective along the tensor axis.
  virtual bool skips(int layer) = 0;
  /// After the backward, or after a forward that has none.
  virtual void end_pass() = 0;

  /// Global rank 0, between steps: a request, to be in force from `next_step` on once install() has
  /// had it. The answer, or why not; then nothing changes.
  virtual base::Result<nlohmann::json> request(const protocol::ProgramRequest& request,
                                               std::int64_t next_step) = 0;
  /// Global rank 0: take_changes() has something to give because of a request.
  virtual bool has_changes() const = 0;
  /// Global rank 0: ends what step `next_step` is too late for, and gives what install() is to be
  /// given on every rank; without text: nothing changed since the last call.
  virtual ProgramChanges take_changes(std::int64_t next_step) = 0;
  /// Every rank: reads `changes`, and no file. Error: this rank cannot take them.
  virtual base::Status prepare(const ProgramChanges& changes) = 0;
  /// Every rank, after prepare(): puts them in force, or with false forgets them.
  virtual void install(bool in_force) = 0;
  /// Every rank: the loss is not finite. Ends all programs; false: there was none.
  virtual bool give_up() = 0;
  /// The notification "interventions" of docs/protocol.md for what is in force.
  virtual nlohmann::json describe(std::int64_t step) const = 0;
  /// What programs did since the last call, as the notification "applied" has it, on global rank 0;
  /// none where no program is in force. Collective over all ranks.
  virtual std::optional<nlohmann::json> report(std::int64_t step) = 0;
  /// Notifications "saved" since the last call, of all replicas on global rank 0. Collective over
  /// all ranks.
  virtual std::vector<nlohmann::json> take_saved() = 0;

  /// Global rank 0: checks the program of "intervention.preview" and reads the files that it names.
  virtual base::Result<FileContents> read_files(const nlohmann::json& params) = 0;
  /// Until end_preview() nothing is counted, kept or told. The same on every rank. `contents`: of
  /// the files that the program names. Error: the program is wrong.
  virtual base::Status begin_preview(const nlohmann::json& params,
                                     const FileContents& contents) = 0;
  /// Whether that program acts in every forward beside those in force; not at first.
  virtual void turn_preview(bool acts) = 0;
  /// It writes gradients: its training forward is to be followed by a backward.
  virtual bool preview_writes_gradients() const = 0;
  /// The "writes" of its answer so far, on every rank. Collective over all ranks.
  virtual nlohmann::json preview_writes() = 0;
  /// REQUIRES: begin_preview() was ok.
  virtual void end_preview() = 0;

 protected:
  /// By PlaceKey::index, of the open forward: most places of a forward have nothing to do.
  const bool* acts_ = nullptr;
};

}  // namespace tt::trace
