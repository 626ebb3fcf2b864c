#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor_tracer/mesh/placement.h"

namespace tt::points {

/// A row of the place table: one named value of the forward pass, of layers first_layer to
/// last_layer or outside the layers. The row holds the logical tensor's form and its placement.
struct Place {
  /// In plans, facts and programs; unique. Empty: the path. Places that Tensor Tracer or MegaScope
  /// knew keep their names ("HiddenStates").
  std::string name = {};
  /// Module path behind `layers[n].`, or alone: "attention.qkv", "final_norm.output".
  std::string path = {};
  /// Further module paths of the same value, such as the input of the next submodule.
  std::vector<std::string> aliases = {};
  std::string text = {};  // one line for people
  std::string bias = {};  // "included", "none" or "not applicable"

  // Filled in by PlaceTableBuilder::add.
  std::uint16_t number = 0;  // in records and facts ("flag"); unique in the run
  int first_layer = 0;       // from 1; 0 and 0: outside the layers
  int last_layer = 0;
  std::vector<std::int64_t> shape = {};  // logical, of one training micro-batch; of a weight: given
  std::string dtype = {};                // PyTorch's name: "float32", "bfloat16", "int64"

  int legacy_flag = 0;         // Tensor Tracer's number of this point, 1 to 15; 0: it has none
  bool is_weight = false;      // programs read and write it, plans do not name it
  bool is_derived = false;     // computed only where a plan or a program asks for it
  bool writable = true;        // by programs
  bool is_vocabulary = false;  // the features are tokens: the largest are of interest
  bool has_heads = false;      // the features are heads side by side: .heads[k] selects

  /// Names of the dims; the last, the features, is compressed. Integers: ids_positions, batch,
  /// sequence. REQUIRES: empty for a weight.
  std::vector<std::string> dims = {"batch", "sequence", "features"};
  std::int64_t features = 0;       // logical; 0: integers, which are not compressed
  mesh::Placement placement = {};  // on the tensor axis; the data axis shards the batch
  /// Of the gradient. Empty: no gradient flows back through the value.
  std::optional<mesh::Placement> gradient = std::nullopt;
  /// The entry of `hidden_states` that this value is compared with (0: the embedding). Empty: its
  /// layer's number.
  std::optional<int> hidden_state = std::nullopt;

  bool in_layers() const { return last_layer > 0; }
  bool holds_integers() const { return features == 0 && !is_weight; }
  bool traceable() const { return !is_weight; }
  /// Programs may name the gradient. That of a weight belongs to the optimizer.
  bool has_program_gradient() const {
    return gradient.has_value() && writable && !is_weight && !is_derived;
  }
  /// "layers[n].attention.qkv", or the path alone.
  std::string full_path() const { return in_layers() ? "layers[n]." + path : path; }
};

/// A place at one layer, as the code of the model names it. The default is no place.
struct PlaceKey {
  std::uint16_t row = 0;    // in the table
  std::uint16_t layer = 0;  // 0: outside the layers
  std::uint32_t index = 0;  // unique below PlaceTable::num_keys()
};

}  // namespace tt::points
