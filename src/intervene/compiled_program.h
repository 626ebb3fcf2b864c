#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/intervene/specialization.h"

namespace tt::intervene {

/// A program for one shape of the forward, for every layer it stands for. Immutable.
struct Specialization {
  std::vector<LayerSpecialization> layers;
  std::optional<base::Error> error;  // it does not fit this shape
};

/// Compiles the program for a shape. Reads the files that are missing in `contents`.
std::shared_ptr<const Specialization> specialize(const graph::Program& program,
                                                 const std::vector<int>& layers, const Shape& shape,
                                                 const Context& context,
                                                 trace::FileContents& contents);

/// A program that was checked and compiled for training forwards. Immutable, so that the check of a
/// program and all that are in force share it. Thread: any.
struct CompiledProgram {
  std::string source;  // JSON of the text or graph that was asked for
  graph::Program program;
  nlohmann::json form;              // as "intervention.check" describes it
  std::vector<bool> says_layer;     // by effect: `layer` is in its line, or in what it uses
  std::vector<int> layers;          // that it is compiled for, as layers_of()
  std::set<std::string> read_back;  // saves that saved() reads: the others are not kept
  Shape shape;                      // of a training forward
  std::shared_ptr<const Specialization> specialization;
  trace::FileContents contents;  // of the files that it names
};

/// A text or graph as one string.
std::string source_of(const nlohmann::json& program);

/// `program`: text, or a graph in JSON. Errors as graph::read_program(), and of shapes, dtypes and
/// limits. Thread: any.
base::Result<std::shared_ptr<const CompiledProgram>> compile_program(const nlohmann::json& program,
                                                                     const Context& context);

}  // namespace tt::intervene
