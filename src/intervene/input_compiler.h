#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/intervene/layer_draft.h"

namespace tt::intervene {

/// One input of a value.
struct InputInfo {
  Source source = {};
  std::vector<std::int64_t> shape = {};  // logical
  at::ScalarType dtype = at::kFloat;
  bool is_number = false;                      // as eval::Input::is_number
  bool has_gradient = false;                   // may have one
  const mesh::Placement* placement = nullptr;  // of its shards; null: whole on every rank
  bool is_part = false;                        // some heads of a sharded place
};

/// Compiles the inputs of values: adds the getters and noises to the draft, and notes in the value
/// when its latest input is there. Draft and contents must outlive it. Thread: one.
class InputCompiler {
 public:
  InputCompiler(LayerDraft& draft, trace::FileContents& contents)
      : draft_(draft), contents_(contents) {}
  /// `value`: of the program; its line holds the leaf. REQUIRES: the leaf is not `layer`.
  base::Result<InputInfo> compile(const graph::Leaf& leaf, std::size_t value);

 private:
  base::Result<InputInfo> input_of_place(const graph::Leaf& leaf, std::size_t value);
  base::Result<InputInfo> input_of_noise(const graph::Leaf& leaf);
  InputInfo input_of_parameter(const graph::Leaf& leaf) const;
  InputInfo input_of_value(const graph::Leaf& leaf, std::size_t value);
  base::Result<InputInfo> input_of_vector(const graph::Leaf& leaf) const;
  base::Result<InputInfo> input_of_file(const graph::Leaf& leaf) const;
  base::Result<InputInfo> input_of_saved(const graph::Leaf& leaf) const;

  LayerDraft& draft_;
  trace::FileContents& contents_;
};

}  // namespace tt::intervene
