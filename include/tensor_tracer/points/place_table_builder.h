#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor_tracer/points/place_table.h"

namespace tt::points {

/// Collects the rows while the model walks its modules in execution order.
///
///     builder.add({.name = "Embedding", .path = "embedding.output", …});
///     builder.begin_layer(1); … builder.add(…) … builder.begin_layer(2); … builder.end_layers();
///     builder.set_layer_ends(embedding, output);
///
/// Thread: one.
class PlaceTableBuilder {
 public:
  /// Shapes of the forward pass of a training micro-batch. `activations`: PyTorch's name of the
  /// dtype.
  struct Forward {
    std::int64_t batch = 1;
    std::int64_t sequence = 1;
    std::string activations = "float32";
  };
  /// `first_number`: the first record number of rows without a legacy flag. If several processes
  /// (pipeline stages) declare parts of one model, their ranges of numbers must not overlap.
  PlaceTableBuilder(int num_layers, Forward forward, std::uint16_t first_number = kFirstNumber);
  static constexpr std::uint16_t kFirstNumber = 16;  // smaller numbers are legacy flags

  /// The layers and rows added after this call belong to this virtual pipeline stage; before the
  /// first call, to stage 0. A row outside the layers keeps the stage kEveryStage if it has it.
  void begin_stage(int stage);
  /// The rows added after this call belong to this layer. REQUIRES: layers come in ascending order.
  void begin_layer(int layer);
  void end_layers() { layer_ = 0; }
  /// Adds the row, or adds this layer to the row with the same path. Sets number, layers, shape
  /// and, if empty, dtype. REQUIRES: no other row has its name or path.
  PlaceKey add(Place place);
  /// Adds another path of a place: a path in the open layer, or a path outside the layers, which
  /// may also name a place in a layer.
  void add_alias(const PlaceKey& place, const std::string& path);
  /// Sets the input of the first layer and the output of each layer. `input_paths`: paths of a
  /// layer's input, after `layers[n].`.
  void set_layer_ends(const PlaceKey& input, const PlaceKey& output,
                      std::vector<std::string> input_paths = {"input"});
  PlaceTable build();

 private:
  void complete(Place& place) const;

  PlaceTable table_;
  const Forward forward_;
  std::uint16_t next_number_;
  int stage_ = 0;
  int layer_ = 0;
};

}  // namespace tt::points
