#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/intervene/specialization.h"
#include "src/intervene/stages.h"

namespace tt::intervene {

/// A program compiled for one shape of the forward, for all layers of the program. Immutable.
struct Specialization {
  std::vector<LayerSpecialization> layers;
  std::optional<base::Error> error;  // the program does not fit this shape
};

/// Compiles the program for a shape. Reads the files that are missing in `contents`.
std::shared_ptr<const Specialization> specialize(const graph::Program& program,
                                                 const std::vector<int>& layers, const Shape& shape,
                                                 const Context& context,
                                                 trace::FileContents& contents);

/// A program that was checked and compiled for training forwards. Immutable, so program checks and
/// the programs in force can share it. Thread: any.
struct CompiledProgram {
  std::string source;  // JSON of the requested text or graph
  graph::Program program;
  nlohmann::json form;           // as "intervention.check" describes it
  std::vector<bool> says_layer;  // by effect: its line or its values use `layer`
  std::vector<int> layers;       // the compiled layers, as layers_of()
  EffectStages stages;
  std::set<std::string> read_back;  // saves that saved() reads; only these are kept
  base::Status generation;          // error: the program cannot act in a generation
  Shape shape;                      // of a training forward
  std::shared_ptr<const Specialization> specialization;
  trace::FileContents contents;  // of the files that the program names
};

/// The text or graph as one string.
std::string source_of(const nlohmann::json& program);

/// `program`: text, or a graph in JSON. Errors: as graph::read_program(), and errors of shapes,
/// dtypes and limits. Thread: any.
base::Result<std::shared_ptr<const CompiledProgram>> compile_program(const nlohmann::json& program,
                                                                     const Context& context);

}  // namespace tt::intervene
