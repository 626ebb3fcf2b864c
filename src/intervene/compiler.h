#pragma once

#include <cstddef>
#include <vector>

#include "src/intervene/input_compiler.h"

namespace tt::intervene {

/// Compiles one LayerSpecialization. Program, context and contents must outlive it. Thread: one.
class Compiler {
 public:
  Compiler(const graph::Program& program, const Context& context, const Shape& shape, int layer,
           trace::FileContents& contents);
  Compiler(const Compiler&) = delete;  // inputs_ refers to draft_
  base::Result<LayerSpecialization> compile();

 private:
  base::Status compile_value(std::size_t index);
  void note_cost(CompiledValue& compiled, const std::vector<InputInfo>& inputs) const;
  base::Status check_gradient(std::size_t index, const std::vector<InputInfo>& inputs) const;
  base::Status use_shards(std::size_t index, std::vector<InputInfo> inputs,
                          const eval::Substitutions& known);
  bool fit_to_shards(InputInfo& input, const mesh::Placement& placement,
                     std::size_t rank_of_result) const;

  LayerDraft draft_;
  InputCompiler inputs_;
  const eval::Limits limits_;  // of each line
};

}  // namespace tt::intervene
