#include "tensor_tracer/points/place_table_builder.h"

#include <algorithm>
#include <map>
#include <utility>

#include "tensor_tracer/base/check.h"

namespace tt::points {

PlaceTableBuilder::PlaceTableBuilder(int num_layers, Forward forward, std::uint16_t first_number)
    : forward_(std::move(forward)), next_number_(first_number) {
  table_.num_layers_ = num_layers;
  table_.stage_of_layer_.assign(static_cast<std::size_t>(num_layers) + 1, 0);
}

void PlaceTableBuilder::begin_stage(int stage) {
  TT_CHECK(stage_ <= stage, "stage " + std::to_string(stage));
  stage_ = stage;
  table_.num_stages_ = stage + 1;
}

void PlaceTableBuilder::begin_layer(int layer) {
  TT_CHECK(layer_ < layer && layer <= table_.num_layers_, "layer " + std::to_string(layer));
  layer_ = layer;
  table_.stage_of_layer_[static_cast<std::size_t>(layer)] = stage_;
}

void PlaceTableBuilder::complete(Place& place) const {
  if (place.name.empty()) place.name = place.path;
  place.first_layer = place.last_layer = layer_;
  if (place.stage != kEveryStage) place.stage = stage_;
  if (place.dtype.empty()) place.dtype = place.holds_integers() ? "int64" : forward_.activations;
  if (place.is_weight) {
    place.dims.clear();
    return;
  }
  const std::map<std::string, std::int64_t> sizes = {
      {"ids_positions", 2},
      {"batch", forward_.batch},
      {"sequence", forward_.sequence},
      {"heads", place.dims.size() == 4 ? place.placement.full_size() : 1},
      {"keys", forward_.sequence},
      {"step", 1},
      {"parameters", static_cast<std::int64_t>(place.parameters.size())},
      {"features", place.features}};
  for (const std::string& dim : place.dims) place.shape.push_back(sizes.at(dim));
}

PlaceKey PlaceTableBuilder::add(Place place) {
  complete(place);
  std::vector<Place>& rows = table_.rows_;
  const auto same = std::ranges::find_if(rows, [&](const Place& row) {
    return row.path == place.path && row.in_layers() == place.in_layers();
  });
  if (same != rows.end()) {
    TT_CHECK(layer_ > 0 && same->last_layer == layer_ - 1 && same->name == place.name,
             "place " + place.path + " at layer " + std::to_string(layer_));
    same->last_layer = layer_;
    return table_.key(static_cast<std::size_t>(same - rows.begin()), layer_);
  }
  TT_CHECK(!table_.find(place.name), "two places are named " + place.name);
  place.number = static_cast<std::uint16_t>(place.legacy_flag);
  if (place.number == 0) place.number = next_number_++;
  rows.push_back(std::move(place));
  return table_.key(rows.size() - 1, layer_);
}

void PlaceTableBuilder::add_alias(const PlaceKey& place, const std::string& path) {
  if (layer_ == 0 && place.layer > 0) {
    table_.outer_aliases_.emplace(path, place);
    return;
  }
  std::vector<std::string>& aliases = table_.rows_[place.row].aliases;
  if (std::ranges::find(aliases, path) == aliases.end()) aliases.push_back(path);
}

void PlaceTableBuilder::set_layer_ends(const PlaceKey& input, const PlaceKey& output,
                                       std::vector<std::string> input_paths) {
  table_.layer_input_ = input.row;
  table_.layer_output_ = output.row;
  table_.layer_input_paths_ = std::move(input_paths);
}

PlaceTable PlaceTableBuilder::build() { return std::move(table_); }

}  // namespace tt::points
