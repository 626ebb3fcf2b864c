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
#include "tensor_tracer/trace/plan.h"

namespace tt::intervene {

/// Positions that a write on shards reached, as far as this rank's shard tells: bool [batch,
/// sequence]. Those of all ranks of the tensor axis are joined when they are reported, so that a
/// masked write needs no message.
struct Touched {
  std::size_t place = 0;  // as in Counts::places
  at::Tensor positions;
};

/// What a program did since the last report, on this rank.
struct Counts {
  bool was_due = false;  // some forward was one of its own
  bool acted = false;
  std::int64_t forwards = 0;
  std::int64_t positions = 0;
  std::int64_t identity = 0;
  std::int64_t waiting = 0;
  std::int64_t failed = 0;
  std::vector<std::int64_t> places;  // positions by effect, then by layer: ActiveProgram::place_of
  std::vector<Touched> touched;      // to be added to `positions` and `places`
};

/// Squares over what a write of a preview covers.
struct Change {
  double before = 0.0;
  double change = 0.0;
};

/// Saves are kept by what kind of forward, over which rows, made them.
using ForwardKind = std::tuple<trace::Phase, std::uint32_t, std::int64_t>;

/// Under which a save is kept; layer 0: one that does not say `layer`.
std::string saved_name(const std::string& name, int layer);

/// Null: the program has no such parameter.
const graph::Parameter* find_parameter(const graph::Program& program, const std::string& name);
/// Error: no number, or one out of the parameter's range.
base::Status check_value(const graph::Parameter& parameter, const nlohmann::json& value);

/// What the number of the step decides. Passes that are open keep that of their step.
struct StepValues {
  std::int64_t step = 0;
  std::vector<at::Tensor> parameters;  // double, without dims
  std::vector<bool> is_identity;       // by effect
  std::vector<bool> is_done;           // by effect: left out for all layers but the first
};

/// What the controller decided about a program.
struct ProgramSettings {
  std::string name;
  std::map<std::string, double> targets;  // of its parameters
  std::int64_t since = 1;
  std::optional<std::int64_t> until;  // its last step
  bool keep = false;
};

/// One program in force on one rank. All of its passes share it.
struct ActiveProgram : ProgramSettings {
  explicit ActiveProgram(std::shared_ptr<const CompiledProgram> of);

  const std::shared_ptr<const CompiledProgram> compiled;
  const graph::Program& program = compiled->program;
  const std::vector<bool>& says_layer = compiled->says_layer;
  const std::vector<int>& layers = compiled->layers;
  const std::set<std::string>& read_back = compiled->read_back;

  bool is_preview = false;  // acts in every forward, and sums what it changes

  std::shared_ptr<const StepValues> step_values;  // of the last step; null: made anew
  std::map<Shape, std::shared_ptr<const Specialization>> specializations;
  trace::FileContents contents;                                   // of the files that it names
  std::map<ForwardKind, std::map<std::string, at::Tensor>> kept;  // of the passes that ended
  Counts counts;
  std::vector<Change> changes;  // by place, as Counts::places

  std::size_t num_places() const { return program.effects.size() * layers.size(); }
  std::size_t place_of(std::size_t effect, std::size_t layer_index) const {
    return effect * layers.size() + layer_index;
  }
  /// Sets the parameters in `given`, by name. The error names the wrong one.
  base::Status set_targets(const nlohmann::json& given);
  /// Whether its `when` names this forward of a run.
  bool is_due(const trace::ForwardScope& scope, const graph::Model& model) const;
  std::shared_ptr<const StepValues> values_of_step(std::int64_t number);
  void count_identity(const StepValues& values);
  /// Made on demand; the oldest of many shapes are forgotten.
  std::shared_ptr<const Specialization> specialization_for(const Shape& shape,
                                                           const Context& context);
  /// The tokens that rows, tokens and token_text of `when` select, bool [batch, sequence];
  /// undefined: all.
  at::Tensor selected(const trace::ForwardScope& scope, const at::Tensor& tokens) const;
  /// {"name", "text", "parameters", "since", …} of docs/protocol.md.
  nlohmann::json describe() const;
};

/// The program as it is compiled in `context.programs`, not yet in force.
base::Result<std::shared_ptr<ActiveProgram>> make_active_program(const nlohmann::json& program,
                                                                 const Context& context);

}  // namespace tt::intervene
