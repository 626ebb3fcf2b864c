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
  /// The forward pass of a training micro-batch. `activations`: PyTorch's name of the dtype.
  struct Forward {
    std::int64_t batch = 1;
    std::int64_t sequence = 1;
    std::string activations = "float32";
  };
  /// `first_number`: of records of rows without a legacy flag. Parts of one model that are declared
  /// by several processes (pipeline stages) give ranges that do not overlap.
  PlaceTableBuilder(int num_layers, Forward forward, std::uint16_t first_number = kFirstNumber);
  static constexpr std::uint16_t kFirstNumber = 16;  // below it are legacy flags

  /// Rows that follow belong to this layer. REQUIRES: layers come in ascending order.
  void begin_layer(int layer);
  void end_layers() { layer_ = 0; }
  /// Adds the row, or a further layer to the row of the same path. Sets number, layers, shape and
  /// dtype (where it is empty). REQUIRES: another row has neither its name nor its path.
  PlaceKey add(Place place);
  /// A further path of a place: in the open layer, or outside the layers, then also of a layer's
  /// place.
  void add_alias(const PlaceKey& place, const std::string& path);
  /// What the first layer takes, and what each layer gives. `input_paths`: of a layer's input,
  /// behind `layers[n].`.
  void set_layer_ends(const PlaceKey& input, const PlaceKey& output,
                      std::vector<std::string> input_paths = {"input"});
  PlaceTable build();

 private:
  void complete(Place& place) const;

  PlaceTable table_;
  const Forward forward_;
  std::uint16_t next_number_;
  int layer_ = 0;
};

}  // namespace tt::points
