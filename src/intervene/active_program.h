#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "src/intervene/compiled_program.h"
#include "tensor_tracer/trace/intervention_hooks.h"
#include "tensor_tracer/trace/plan.h"

namespace tt::intervene {

/// Positions in this rank's shard that a write changed: bool [batch, sequence]. The positions of
/// all ranks of the tensor axis are joined later, so a masked write itself sends no message.
struct Touched {
  std::size_t place = 0;  // as in Counts::places
  at::Tensor positions;
};

/// Counts of a program since the last report, on this rank.
struct Counts {
  bool was_due = false;  // the program's `when` named some forward
  bool acted = false;
  std::int64_t forwards = 0;
  std::int64_t positions = 0;
  std::int64_t identity = 0;
  std::int64_t waiting = 0;
  std::int64_t failed = 0;
  std::vector<std::int64_t> places;  // positions; index: ActiveProgram::place_of
  std::vector<Touched> touched;      // not yet added to `positions` and `places`
};

/// Sums of squares over the numbers that a write of a preview covers.
struct Change {
  double before = 0.0;
  double change = 0.0;
};

/// Key of saved values: the kind of forward, the rows (in training the micro-batch) and the
/// pipeline stage that made them.
using ForwardKind = std::tuple<trace::Phase, std::uint32_t, std::int64_t, int>;
ForwardKind kind_of(const trace::ForwardScope& scope);

/// The key of one saved value; layer 0: the save does not use `layer`.
std::string saved_name(const std::string& name, int layer);

/// Null: the program has no such parameter.
const graph::Parameter* find_parameter(const graph::Program& program, const std::string& name);
/// Error: the value is not a number, or is outside the parameter's range.
base::Status check_value(const graph::Parameter& parameter, const nlohmann::json& value);

/// The values that depend on the step number. An open pass keeps the values of its step.
struct StepValues {
  std::int64_t step = 0;
  std::vector<at::Tensor> parameters;  // double, without dims
  std::vector<bool> is_identity;       // by effect
  std::vector<bool> is_done;           // by effect: not executed, except for the first layer
};

/// The controller's settings of a program.
struct ProgramSettings {
  std::string name;
  std::map<std::string, double> targets;  // values of the program's parameters
  std::int64_t since = 1;
  std::optional<std::int64_t> until;  // the program's last step
  bool keep = false;
};

/// One program in force on one rank. All passes of the program share it.
struct ActiveProgram : ProgramSettings {
  explicit ActiveProgram(std::shared_ptr<const CompiledProgram> of);

  const std::shared_ptr<const CompiledProgram> compiled;
  const graph::Program& program = compiled->program;
  const std::vector<bool>& says_layer = compiled->says_layer;
  const std::vector<int>& layers = compiled->layers;
  const std::set<std::string>& read_back = compiled->read_back;
  const EffectStages& stages = compiled->stages;

  bool is_preview = false;                       // acts in every forward, and sums its changes
  trace::Phase reported = trace::Phase::kTrain;  // of a preview: the forwards whose changes count

  std::shared_ptr<const StepValues> step_values;  // of the last step; null: computed again
  std::map<Shape, std::shared_ptr<const Specialization>> specializations;
  trace::FileContents contents;                                   // of the program's files
  std::map<ForwardKind, std::map<std::string, at::Tensor>> kept;  // of the passes that ended
  Counts counts;
  std::vector<Change> changes;  // by place, as Counts::places

  std::size_t num_places() const { return program.effects.size() * layers.size(); }
  std::size_t place_of(std::size_t effect, std::size_t layer_index) const {
    return effect * layers.size() + layer_index;
  }
  /// Sets the parameters in `given`, by name. The error names the wrong parameter.
  base::Status set_targets(const nlohmann::json& given);
  /// True if the program's `when` names this forward.
  bool is_due(const trace::ForwardScope& scope, const graph::Model& model) const;
  /// True if some effect runs at this virtual pipeline stage.
  bool acts_at(int stage) const;
  /// The first stage at which an effect runs.
  int first_stage() const;
  std::shared_ptr<const StepValues> values_of_step(std::int64_t number);
  void count_identity(const StepValues& values, int stage);
  /// Drops the values that passes of a generation saved.
  void forget_generation();
  /// Compiles on demand. Keeps a limited number of shapes and removes the oldest.
  std::shared_ptr<const Specialization> specialization_for(const Shape& shape,
                                                           const Context& context);
  /// The positions that rows, tokens, token_text and positions of `when` select: bool
  /// [batch, sequence]; undefined: all positions. `texts`: of the run; null if token_text is
  /// refused.
  at::Tensor selected(const trace::ForwardScope& scope, const trace::ProgramTokens& tokens,
                      const TokenTexts* texts) const;
  /// {"name", "text", "parameters", "since", …} of docs/protocol.md.
  nlohmann::json describe() const;
};

/// Takes the compiled program from `context.programs`, or compiles it. The result is not yet in
/// force.
base::Result<std::shared_ptr<ActiveProgram>> make_active_program(const nlohmann::json& program,
                                                                 const Context& context);

}  // namespace tt::intervene
