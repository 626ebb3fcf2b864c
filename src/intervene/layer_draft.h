#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/intervene/specialization.h"

namespace tt::intervene {

/// A LayerSpecialization while it is compiled, and the facts for the compilation, which must
/// outlive the draft. Thread: one.
struct LayerDraft {
  const graph::Program& program;
  const Context& context;
  trace::FileContents& contents;  // of the files that the program names; missing files are read
  const eval::Limits limits;      // of each line
  LayerSpecialization layer = {};

  PlaceRef ref_of(const graph::Place& place) const {
    return find_place_ref(place, layer.layer, context, layer.shape);
  }
  std::int64_t moment_of(const graph::Place& place, const PlaceRef& ref) const {
    return context.places().moment(place.row, ref.place.layer, ref.gradient);
  }
  std::size_t key_of(const PlaceRef& ref) const {
    return action_key(ref.place, ref.gradient, context.places());
  }
  base::Error error(expr::NodeId node, std::string what, std::string remedy) const;
  /// The elements of `x` that the subscript selects, as a tensor without data. Checks lists of
  /// indices.
  base::Result<at::Tensor> select(const at::Tensor& x, const Indices& indices,
                                  expr::NodeId subscript) const;
};

/// A tensor without data.
at::Tensor meta_tensor(const std::vector<std::int64_t>& shape, at::ScalarType dtype);

/// One input of a value.
struct InputInfo {
  Source source = {};
  std::vector<std::int64_t> shape = {};  // logical
  at::ScalarType dtype = at::kFloat;
  bool is_number = false;                      // as eval::Input::is_number
  bool has_gradient = false;                   // may have a gradient
  const mesh::Placement* placement = nullptr;  // of the shards; null: whole on every rank
  bool is_part = false;                        // only some heads of a sharded place
};

/// In input_compiler.cpp. Compiles an input of a value: adds getters and noises to the draft, and
/// stores in the value the moment of its latest input. `value`: index in the program; its line
/// contains the leaf. REQUIRES: the leaf is not `layer`.
base::Result<InputInfo> compile_input(LayerDraft& draft, const graph::Leaf& leaf,
                                      std::size_t value);

/// In module_compiler.cpp. Compiles a value that is a call of a part of the model: checks the shape
/// of its argument. REQUIRES: graph::Value::module is not empty.
base::Status compile_module(LayerDraft& draft, std::size_t value);

/// In effect_compiler.cpp. Checks a write, save or skip of the program against its compiled values,
/// and adds a write to the draft. REQUIRES: all values are compiled.
base::Status compile_effect(LayerDraft& draft, std::size_t effect);

}  // namespace tt::intervene
