#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
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

/// Programs in the form that global rank 0 sends to every rank.
struct ProgramChanges {
  std::string text;       // JSON; empty: nothing changed
  FileContents contents;  // of files that programs name and the ranks do not have yet
};

/// Parts of the model that programs may call, with the weights as they are. Both take a value whose
/// last dim is the hidden size, the same on every tensor rank. `output_layer` returns this rank's
/// shard of the vocabulary.
struct ModuleCalls {
  std::function<at::Tensor(const at::Tensor&)> final_norm, output_layer;
};

/// The tokens of a pass, for programs; all of the shape [batch, sequence].
struct ProgramTokens {
  at::Tensor ids;  // int64
  /// bool: programs may write here, besides their own choice; undefined: everywhere.
  at::Tensor writable = {};
  /// bool: the token is part of a response. Undefined: in training and evaluation each token is,
  /// in prompts none, in a generation each token after its first pass.
  at::Tensor response = {};
};

/// Changes values inside the model while the model runs. Each rank has one object; the programs in
/// force are the same on every rank. An error in a program is counted and reported, and never
/// reaches training. Thread: the thread that runs the step.
///
///     const auto pass = hooks.begin(scope, ids);         // null: no program acts
///     … if (pass && pass->acts_at(place)) x = pass->at_point(place, x) …
///     loss.backward();                                   // tensor hooks change gradients
///     if (pass) pass->end();
class InterventionHooks {
 public:
  virtual ~InterventionHooks() = default;

  /// Sets the parts of the model that programs call. They outlive the passes. Without it, a line
  /// that calls one fails.
  virtual void use_modules(ModuleCalls modules) = 0;

  /// True if begin() may open a pass. The same on all ranks.
  virtual bool is_due(const ForwardScope& scope) const = 0;
  /// Opens a pass; null if no program acts in this pass. The hooks outlive the pass. Collective
  /// along the tensor axis.
  virtual std::unique_ptr<InterventionPass> begin(const ForwardScope& scope,
                                                  const ProgramTokens& tokens) = 0;
  std::unique_ptr<InterventionPass> begin(const ForwardScope& scope, const at::Tensor& ids) {
    return begin(scope, ProgramTokens{ids});
  }

  /// Global rank 0, between steps: takes a request. The request is in force from `next_step` on,
  /// after install(). Returns the answer, or an error; after an error nothing changes.
  virtual base::Result<nlohmann::json> request(const protocol::ProgramRequest& request,
                                               std::int64_t next_step) = 0;
  /// Global rank 0: true if a request left changes for take_changes().
  virtual bool has_changes() const = 0;
  /// Global rank 0: ends the programs whose last step is before `next_step`. Returns the changes
  /// for prepare() on every rank; an empty text: nothing changed since the last call.
  virtual ProgramChanges take_changes(std::int64_t next_step) = 0;
  /// Every rank: parses `changes` and opens no file. Error: this rank cannot take the changes.
  virtual base::Status prepare(const ProgramChanges& changes) = 0;
  /// Every rank, after prepare(): true puts the changes in force, false drops them.
  virtual void install(bool in_force) = 0;
  /// Every rank, when the loss is not finite: ends all programs. False: no program was in force.
  virtual bool give_up() = 0;
  /// The notification "interventions" of docs/protocol.md, for the programs in force.
  virtual nlohmann::json describe(std::int64_t step) const = 0;
  /// On global rank 0: the counts of programs since the last call, as the notification "applied".
  /// Without a program in force: nullopt. Collective over all ranks.
  virtual std::optional<nlohmann::json> report(std::int64_t step) = 0;
  /// On global rank 0: the notifications "saved" of all replicas since the last call. Collective
  /// over all ranks.
  virtual std::vector<nlohmann::json> take_saved() = 0;

  /// Global rank 0: checks the program of "intervention.preview" and reads the files that the
  /// program names.
  virtual base::Result<FileContents> read_files(const nlohmann::json& params) = 0;
  /// Until end_preview() nothing is counted, kept or reported. `params` and `contents` are the same
  /// on every rank. `contents`: of the files that the program names. `reported`: preview_writes()
  /// sums over the forwards of this phase. Error: the program is wrong.
  virtual base::Status begin_preview(const nlohmann::json& params, const FileContents& contents,
                                     Phase reported) = 0;
  /// Sets whether the preview's program acts in every forward, in addition to the programs in
  /// force. At first it does not act.
  virtual void turn_preview(bool acts) = 0;
  /// True if the preview's program writes gradients; then its training forward needs a backward.
  virtual bool preview_writes_gradients() const = 0;
  /// The member "writes" of the preview's answer so far, on every rank. Collective over all ranks.
  virtual nlohmann::json preview_writes() = 0;
  /// Why the preview's program does not fit the shape of some forward, which ran without it; empty:
  /// it fits all.
  virtual std::string preview_misfit() const = 0;
  /// Ends the preview. REQUIRES: begin_preview() succeeded.
  virtual void end_preview() = 0;

  /// Until end_prompt() every program in force acts in every forward, whatever phase, prompts and
  /// steps its `when` names, and nothing is kept or reported. False: no program is in force, and
  /// nothing has begun.
  virtual bool begin_prompt() = 0;
  /// Returns the member "programs" of the answer to "prompt.run": one object for each program in
  /// force. REQUIRES: begin_prompt() returned true.
  virtual nlohmann::json end_prompt() = 0;
};

}  // namespace tt::trace
