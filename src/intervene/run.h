#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/intervene/active_program.h"
#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/trace/intervention_hooks.h"

namespace tt::intervene {

/// "saved" notifications that are not sent yet.
struct SavedValues {
  std::vector<nlohmann::json> notifications;
  std::size_t numbers = 0;  // in the notifications of this step
};

/// The environment that all runs of one pass share. It outlives the runs.
struct ForwardEnv {
  const Context& context;
  std::shared_ptr<const comm::ProcessGroup> tensor;
  const trace::ModuleCalls& modules;
  trace::ForwardScope scope;
  trace::ProgramTokens tokens;
  SavedValues* saved = nullptr;  // null: this rank sends nothing
  bool is_preview = false;       // saves nothing, counts only the preview's program
  bool is_repeat = false;        // a recomputation reaches a place again: counts and saves nothing
};

/// One program in one pass.
struct ProgramPass {
  std::shared_ptr<ActiveProgram> program;
  std::shared_ptr<const StepValues> values;
  std::map<std::string, at::Tensor> saves = {};
  bool has_acted = false;
  std::deque<std::vector<bool>> left_out = {};  // of a run with stages: by layer, then by effect
};

/// One program for one `layer` in one pass, with the values so far. Failures are counted; the pass
/// catches the exceptions of libtorch. Thread: the thread that runs the step.
class Run {
 public:
  /// `of` and `env` outlive the run.
  Run(ProgramPass& of, std::shared_ptr<const Specialization> specialization,
      std::size_t layer_index, const at::Tensor& selected, const ForwardEnv& env);

  /// Reads `now`, this rank's part of the getter's place.
  void get(std::size_t getter, const at::Tensor& now);
  void compute(std::size_t value);
  /// Returns the tensor that replaces `now`.
  at::Tensor write(std::size_t write, const at::Tensor& now);
  void save(std::size_t effect);
  /// True if the layer of this effect is skipped; the same on every tensor rank.
  bool skips(std::size_t effect);
  void free(std::size_t value);
  /// Counts a line that could not run.
  void fail();

 private:
  /// A tensor as this rank's shard, as the logical tensor, or both.
  struct Slot {
    at::Tensor local;
    at::Tensor full;
    const mesh::Placement* placement = nullptr;  // of `local`
    bool is_defined() const { return local.defined() || full.defined(); }
  };

  const at::Tensor& full_of(Slot& slot) const;
  const at::Tensor& tensor_of(Slot& slot, bool is_local) const;
  void call_module(const CompiledValue& compiled, Slot& result);
  at::Tensor input_of(const Source& source, bool is_local);
  at::Tensor saved_of(const std::string& name) const;
  bool must_wait(const CompiledValue& compiled) const;
  bool must_wait(const graph::Effect& effect) const;
  bool has_values(const graph::Effect& effect);
  at::Tensor condition_of(const graph::Effect& effect, bool is_local);
  at::Tensor selection(const Write& write, bool is_local) const;
  at::Tensor renew(const Write& write, const at::Tensor& old, const at::Tensor& value,
                   const at::Tensor& condition, bool is_local) const;
  at::Tensor fill(const Write& write, const at::Tensor& now, const at::Tensor& value,
                  const at::Tensor& condition) const;
  at::Tensor whole(const Write& write, const at::Tensor& local) const;
  at::Tensor shard(const Write& write, const at::Tensor& full) const;
  void count(const Write& write, const at::Tensor& now);
  void count(std::size_t effect, std::int64_t positions);
  at::Tensor touched_by(const Write& write, const at::Tensor& condition) const;
  void sum_change(const Write& write, const at::Tensor& before, const at::Tensor& after);
  bool is_silent() const;
  bool counts_here() const;
  bool is_counted() const;
  void act();
  void wait();

  ProgramPass& pass_;
  ActiveProgram& program_;
  const std::shared_ptr<const Specialization> specialization_;
  const std::size_t layer_index_;
  const LayerSpecialization& layer_;
  const at::Tensor selected_;
  const bool selects_nothing_;
  const ForwardEnv& env_;
  std::vector<Slot> getters_;
  std::vector<Slot> values_;
};

}  // namespace tt::intervene
