#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/protocol/request.h"
#include "tensor_tracer/trace/intervention_pass.h"
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
///     const auto pass = hooks.begin(scope, tokens);      // null: no program acts
///     … if (pass && pass->acts_at(place)) x = pass->at_point(place, x) …
///     loss.backward();                                   // tensor hooks change gradients
///     if (pass) pass->end();
class InterventionHooks {
 public:
  virtual ~InterventionHooks() = default;

  /// Opens a pass; null if no program acts in it. `tokens` int64 [batch, sequence]. The hooks
  /// outlive the pass. Collective along the tensor axis.
  virtual std::unique_ptr<InterventionPass> begin(const ForwardScope& scope,
                                                  const at::Tensor& tokens) = 0;

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
};

}  // namespace tt::trace
