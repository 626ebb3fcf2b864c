#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/mesh/placement.h"

namespace tt::points {

/// A row of the place table: one named value of the forward pass, in layers first_layer to
/// last_layer or outside the layers. The row holds the shape, dtype and placement of the logical
/// tensor.
struct Place {
  /// Name in plans, facts and programs; unique. Empty: the path. Places of the earlier Tensor
  /// Tracer or of MegaScope keep their names ("HiddenStates").
  std::string name = {};
  /// Module path after `layers[n].`, or the whole path outside the layers: "attention.qkv",
  /// "final_norm.output".
  std::string path = {};
  /// Other module paths of the same value, such as the input of the next submodule.
  std::vector<std::string> aliases = {};
  std::string text = {};  // one line, to be read by users
  std::string bias = {};  // "included", "none" or "not applicable"

  // PlaceTableBuilder::add sets the next members.
  std::uint16_t number = 0;  // in records and facts ("flag"); unique in the run
  int first_layer = 0;       // from 1; 0 and 0: outside the layers
  int last_layer = 0;
  /// Of a row outside the layers: the virtual pipeline stage that computes it. For rows in layers,
  /// see PlaceTable::stage_of().
  int stage = 0;
  std::vector<std::int64_t> shape = {};  // logical, of one training micro-batch; a weight sets it
  std::string dtype = {};                // PyTorch's name: "float32", "bfloat16", "int64"

  int legacy_flag = 0;     // Tensor Tracer's number of this point, 1 to 15; 0: no such number
  bool is_weight = false;  // programs read and write it; plans cannot name it
  /// How a derived value is computed from other places; empty: not derived. A derived value is
  /// computed only if a plan or a program needs it. The layer that declares the row computes it.
  std::string formula = {};
  /// Floating-point operations that compute a derived value, for each token on all ranks.
  double flops_per_token = 0.0;
  bool in_programs = true;  // programs may name the place
  /// Of a value that a step has once, [step, parameters, features]: the parameters' names and the
  /// names of the features. Else empty.
  std::vector<std::string> parameters = {}, columns = {};
  bool writable = true;                // by programs
  bool is_vocabulary = false;          // the features are tokens: viewers show the largest
  std::string numbers = "activation";  // a noun for one number, which viewers show
  bool has_heads = false;  // the features are heads, one after another: .heads[k] selects

  /// Names of the dims. The last dim, the features, is compressed. For integers: ids_positions,
  /// batch, sequence. Of a value that a step has once: step, parameters, features. REQUIRES: empty
  /// for a weight.
  std::vector<std::string> dims = {"batch", "sequence", "features"};
  std::int64_t features = 0;       // logical; 0: integers, which are not compressed
  mesh::Placement placement = {};  // on the tensor axis; the data axis shards the batch
  /// True: it is not known how the ranks of the tensor axis share the value. Records hold the value
  /// of tensor rank 0, viewers are told so, and programs cannot name the place.
  bool is_rank_local = false;
  /// How context-parallel ranks share the tokens of a tensor whose features tensor-parallel ranks
  /// share: `placement` is that of the tensor-parallel ranks of one context. Else Replicate; then
  /// `placement` is that of all ranks.
  mesh::Placement contexts = mesh::Placement::replicate();
  /// Placement of the gradient. Empty: no gradient flows back through the value.
  std::optional<mesh::Placement> gradient = std::nullopt;
  /// The entry of `hidden_states` (of Transformers) that this value is compared with (0: the
  /// embedding). Empty: its layer's number.
  std::optional<int> hidden_state = std::nullopt;

  bool in_layers() const { return last_layer > 0; }
  bool holds_integers() const { return features == 0 && !is_weight; }
  bool traceable() const { return !is_weight; }
  bool is_of_step() const { return !parameters.empty(); }
  bool is_derived() const { return !formula.empty(); }
  /// The compressor of a plan entry that names no compressor.
  std::string_view default_compressor() const {
    if (holds_integers() || is_of_step()) return "none";
    return is_vocabulary ? "topk" : "tile";
  }
  /// True if programs may name the gradient. The gradient of a weight belongs to the optimizer.
  bool has_program_gradient() const {
    return gradient.has_value() && writable && !is_weight && !is_derived();
  }
  /// "layers[n].attention.qkv", or outside the layers only the path.
  std::string full_path() const { return in_layers() ? "layers[n]." + path : path; }
};

/// The stage of a value that every pipeline stage has.
inline constexpr int kEveryStage = -1;

/// A place at one layer; the code of the model uses it to name places. The default value names no
/// place.
struct PlaceKey {
  std::uint16_t row = 0;    // in the table
  std::uint16_t layer = 0;  // 0: outside the layers
  std::uint32_t index = 0;  // unique below PlaceTable::num_keys()
};

}  // namespace tt::points
