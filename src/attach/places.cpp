#include "src/attach/places.h"

#include <ATen/ATen.h>

#include <utility>

#include "tensor_tracer/points/place_table_builder.h"

namespace tt::attach {
namespace {

using nlohmann::json;

mesh::Segment segment_of(const json& segment) {
  mesh::Segment found{
      .size = segment.at(0), .chunks = segment.at(1), .copies_gradient = true, .blocks = {}};
  if (segment.size() > 2) found.blocks = segment.at(2).get<std::vector<int>>();
  return found;
}

mesh::Placement placement_of(const json& row) {
  if (!row.contains("segments")) return mesh::Placement::replicate();
  std::vector<mesh::Segment> segments;
  for (const json& segment : row.at("segments")) segments.push_back(segment_of(segment));
  return mesh::Placement::shard(row.at("dim"), std::move(segments));
}

points::Place place_of(const json& row) {
  points::Place place;
  place.name = row.at("name");
  place.path = row.at("path");
  place.text = row.at("text");
  place.bias = row.value("bias", "");
  place.numbers = row.value("numbers", place.numbers);
  place.formula = row.value("formula", "");
  place.dtype = row.at("dtype");
  place.legacy_flag = row.value("flag", 0);
  place.dims = row.at("dims").get<std::vector<std::string>>();
  place.features = row.value("features", std::int64_t{0});
  place.parameters = row.value("parameters", std::vector<std::string>());
  place.columns = row.value("columns", std::vector<std::string>());
  place.placement = placement_of(row);
  if (row.contains("contexts"))
    place.contexts = mesh::Placement::shard(1, {segment_of(row.at("contexts"))});
  place.is_rank_local = row.value("rank_local", false);
  place.writable = row.value("writable", true);
  place.in_programs = row.value("in_programs", true);
  place.is_vocabulary = row.value("vocabulary", false);
  place.has_heads = row.value("heads", false);
  if (row.at("stage") == points::kEveryStage) place.stage = points::kEveryStage;
  if (row.value("gradient", true)) place.gradient = place.placement;
  if (row.contains("hidden_state")) place.hidden_state = row.at("hidden_state").get<int>();
  if (row.contains("weight")) {
    place.is_weight = true;
    place.shape = row.at("weight").get<std::vector<std::int64_t>>();
    place.gradient = std::nullopt;
  }
  return place;
}

}  // namespace

Places read_places(const json& description) {
  points::PlaceTableBuilder builder(
      description.at("num_layers"),
      {description.at("batch"), description.at("sequence"), description.at("dtype")});
  Places places;
  int layer = 0;
  int stage = 0;
  for (const json& row : description.at("sites")) {
    const int of_row = row.at("stage");
    if (of_row > stage) builder.begin_stage(stage = of_row);
    if (const int number = row.at("layer"); number != layer) {
      layer = number;
      layer > 0 ? builder.begin_layer(layer) : builder.end_layers();
    }
    const points::PlaceKey key = builder.add(place_of(row));
    for (const json& alias : row.value("aliases", json::array()))
      builder.add_alias(key, alias.get<std::string>());
    places.sites.push_back({key, static_cast<View>(row.value("view", 0)), of_row});
    if (row.at("name") == "InputTokens") places.tokens = key;
  }
  const auto site = [&](const char* member) {
    return places.sites.at(description.at(member).get<std::size_t>()).place;
  };
  builder.end_layers();
  for (const auto& [alias, of] : description.at("outer_aliases").items())
    builder.add_alias(places.sites.at(of.get<std::size_t>()).place, alias);
  builder.set_layer_ends(site("layer_input"), site("layer_output"));
  places.table = std::make_shared<const points::PlaceTable>(builder.build());
  return places;
}

at::Tensor as_row(const at::Tensor& tensor, View view, std::int64_t batch) {
  if (view == View::kSequenceFirst) return tensor.transpose(0, 1);
  if (view == View::kFlat) return tensor.unflatten(0, {batch, -1});
  return tensor;
}

at::Tensor as_module(const at::Tensor& row, View view, const at::Tensor& like) {
  if (view == View::kSequenceFirst) return row.transpose(0, 1);
  if (view == View::kFlat) return row.reshape(like.sizes());
  return row;
}

}  // namespace tt::attach
