#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/points/place.h"

namespace tt::points {

/// All places of one model in the order of its forward pass. The forward reaches the rows of layers
/// once in every layer. This is the only list of places: plans, programs, records, the page and the
/// client use it. Immutable. Thread: any.
class PlaceTable {
 public:
  const std::vector<Place>& rows() const { return rows_; }
  int num_layers() const { return num_layers_; }
  /// The row with this name, path or alias; a prefix "layers[n]." is ignored. The input of a layer
  /// is not a row; see input_of_layer().
  std::optional<std::size_t> find(std::string_view name_or_path) const;

  /// The row whose value a path names that is not a row itself, as a text: the input of a layer, or
  /// of the module after the layers. Empty for other paths.
  std::string place_behind(std::string_view path) const;

  /// REQUIRES: row < rows().size(), and the layer is one of the row's.
  PlaceKey key(std::size_t row, int layer) const;
  /// REQUIRES: find() knows the name.
  PlaceKey key(std::string_view name_or_path, int layer) const {
    return key(find(name_or_path).value(), layer);
  }
  /// Virtual pipeline stages, numbered from 0 in the order of the forward. 1: no pipeline.
  int num_stages() const { return num_stages_; }
  /// The stage that computes the place; kEveryStage: each stage has the value. `layer` is ignored
  /// outside the layers.
  int stage_of(std::size_t row, int layer) const {
    return rows_[row].in_layers() ? stage_of_layer_[static_cast<std::size_t>(layer)]
                                  : rows_[row].stage;
  }
  std::size_t num_keys() const {
    return rows_.size() * (static_cast<std::size_t>(num_layers_) + 1);
  }
  /// The moment at which the forward pass, or with `gradient` the backward pass, reaches the place.
  /// A later moment is a larger number. `layer` is ignored outside the layers.
  std::int64_t moment(std::size_t row, int layer, bool gradient) const;

  /// The place that `layers[layer].input` names: the output of the previous layer, or the embedding
  /// (layer 0).
  PlaceKey input_of_layer(int layer) const;
  /// Paths of a layer's input, after `layers[n].`.
  const std::vector<std::string>& layer_input_paths() const { return layer_input_paths_; }
  /// Paths outside the layers that name a place in a layer, such as the input of the module after
  /// the layers.
  const std::map<std::string, PlaceKey, std::less<>>& outer_aliases() const {
    return outer_aliases_;
  }
  /// The row of a layer's output.
  std::size_t layer_output() const { return layer_output_; }

  /// The places that plans may name, in the form of docs/protocol.md, "The run's facts".
  nlohmann::json to_json() const;
  /// The places that programs may name, [{"path", "text"}], in the order of the forward pass.
  nlohmann::json program_places() const;

 private:
  friend class PlaceTableBuilder;
  std::vector<Place> rows_;
  int num_layers_ = 0;
  int num_stages_ = 1;
  std::vector<int> stage_of_layer_;  // by layer number; 0 outside the layers
  std::size_t layer_input_ = 0;      // of the first layer
  std::size_t layer_output_ = 0;     // and of the input of the next layer
  std::vector<std::string> layer_input_paths_;
  std::map<std::string, PlaceKey, std::less<>> outer_aliases_;
};

}  // namespace tt::points
