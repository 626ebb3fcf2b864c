#include "tensor_tracer/points/place_table.h"

#include <algorithm>

#include "tensor_tracer/base/check.h"

namespace tt::points {
namespace {

// Data replicas hold different batch rows, so the batch dim is sharded over the data axis.
std::string placement_on_data(const Place& place) {
  if (place.is_of_step()) return "replicate";
  const auto batch = std::ranges::find(place.dims, "batch") - place.dims.begin();
  return "shard(" + std::to_string(batch) + ")";
}

nlohmann::json describe(const Place& place) {
  nlohmann::json facts = {
      {"name", place.name},
      {"path", place.full_path()},
      {"flag", place.number},
      {"first_layer", place.first_layer},
      {"last_layer", place.last_layer},
      {"dims", place.dims},
      {"shape", place.shape},
      {"dtype", place.dtype},
      {"features", place.features},
      {"placement",
       {{"tensor", place.is_rank_local ? "rank-local" : to_string(place.placement)},
        {"pipeline", "replicate"},
        {"data", placement_on_data(place)}}},
      {"compressor", place.default_compressor()},
      {"numbers", place.numbers},
      {"bias", place.bias},
      {"text", place.text}};
  if (place.is_derived()) facts["formula"] = place.formula;
  if (place.is_of_step()) {
    facts["parameters"] = place.parameters;
    facts["columns"] = place.columns;
  }
  if (place.gradient) facts["gradient_placement"] = {{"tensor", to_string(*place.gradient)}};
  return facts;
}

constexpr std::string_view kInLayer = "layers[n].";

}  // namespace

std::string PlaceTable::place_behind(std::string_view path) const {
  if (const auto found = outer_aliases_.find(path); found != outer_aliases_.end()) {
    const PlaceKey& place = found->second;
    return rows_[place.row].name + " in layer " + std::to_string(place.layer);
  }
  if (!path.starts_with(kInLayer)) return "";
  path.remove_prefix(kInLayer.size());
  const bool is_input = std::ranges::find(layer_input_paths_, path) != layer_input_paths_.end();
  return is_input ? rows_[layer_output_].name + " in the previous layer" : "";
}

std::optional<std::size_t> PlaceTable::find(std::string_view name_or_path) const {
  if (name_or_path.starts_with(kInLayer)) name_or_path.remove_prefix(kInLayer.size());
  const auto found = std::ranges::find_if(rows_, [&](const Place& place) {
    return place.name == name_or_path || place.path == name_or_path ||
           std::ranges::find(place.aliases, name_or_path) != place.aliases.end();
  });
  if (found == rows_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - rows_.begin());
}

PlaceKey PlaceTable::key(std::size_t row, int layer) const {
  TT_CHECK(row < rows_.size() && rows_[row].first_layer <= layer && layer <= rows_[row].last_layer,
           "row " + std::to_string(row) + " at layer " + std::to_string(layer));
  const std::size_t index =
      row * (static_cast<std::size_t>(num_layers_) + 1) + static_cast<std::size_t>(layer);
  return {static_cast<std::uint16_t>(row), static_cast<std::uint16_t>(layer),
          static_cast<std::uint32_t>(index)};
}

std::int64_t PlaceTable::moment(std::size_t row, int layer, bool gradient) const {
  const auto first = std::ranges::find_if(rows_, &Place::in_layers) - rows_.begin();
  const auto in_layer = std::ranges::count_if(rows_, &Place::in_layers);
  const auto at = static_cast<std::int64_t>(row);
  const std::int64_t layers_before = rows_[row].in_layers() ? layer - 1
                                     : at < first           ? 0
                                                            : num_layers_ - 1;
  const std::int64_t moment = at + layers_before * in_layer;
  const std::int64_t end = std::ssize(rows_) + (num_layers_ - 1) * in_layer;
  return gradient ? 2 * end - moment : moment;
}

PlaceKey PlaceTable::input_of_layer(int layer) const {
  return layer == 1 ? key(layer_input_, 0) : key(layer_output_, layer - 1);
}

nlohmann::json PlaceTable::to_json() const {
  nlohmann::json list = nlohmann::json::array();
  for (const Place& place : rows_)
    if (place.traceable()) list.push_back(describe(place));
  return list;
}

nlohmann::json PlaceTable::program_places() const {
  nlohmann::json list = nlohmann::json::array();
  for (const Place& place : rows_)
    if (place.in_programs) list.push_back({{"path", place.full_path()}, {"text", place.text}});
  return list;
}

}  // namespace tt::points
