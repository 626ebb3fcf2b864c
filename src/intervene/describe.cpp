#include "src/intervene/describe.h"

#include <algorithm>

#include "tensor_tracer/graph/json.h"

namespace tt::intervene {
namespace {

using nlohmann::json;

json describe_place(const graph::Place& named, int layer) {
  const graph::Place place = named.in(layer);
  json form = {
      {"place", graph::to_string(place)}, {"point", place.point}, {"gradient", place.gradient}};
  if (place.layer) form["layer"] = place.layer->number;
  return form;
}

const char* how(WritePath path, const PlaceRef& ref) {
  if (path == WritePath::kGathered) return "gathered";
  return ref.is_sharded() ? "shards" : "everywhere";
}

void add_reads(const graph::Program& program, int layer, json& reads) {
  for (const graph::Value& value : program.values) {
    for (const graph::Leaf& leaf : value.leaves) {
      if (leaf.kind != graph::LeafKind::kPlace) continue;
      const json read = describe_place(leaf.place, layer);
      if (std::ranges::find(reads, read) == reads.end()) reads.push_back(read);
    }
  }
}

json describe_parameters(const graph::Program& program) {
  json parameters = json::array();
  for (const graph::Parameter& parameter : program.parameters) {
    json form = {{"name", parameter.name}, {"value", parameter.value}};
    if (parameter.min) form["min"] = *parameter.min;
    if (parameter.max) form["max"] = *parameter.max;
    if (parameter.ramp_steps > 0) {
      form["ramp_from"] = parameter.ramp_from;
      form["ramp_steps"] = parameter.ramp_steps;
    }
    parameters.push_back(std::move(form));
  }
  return parameters;
}

}  // namespace

json describe_program(const graph::Program& program, const Specialization& specialization,
                      const std::vector<bool>& says_layer) {
  json writes = json::array();
  json reads = json::array();
  json saves = json::array();
  json skips = json::array();
  std::int64_t positions = 0;
  for (const LayerSpecialization& specialized : specialization.layers) {
    const bool is_first = &specialized == &specialization.layers.front();
    for (const Write& write : specialized.writes) {
      if (!is_first && !says_layer[write.effect]) continue;
      json form = describe_place(program.effects[write.effect].place, specialized.layer);
      form["runs"] = how(write.path, write.ref);
      writes.push_back(std::move(form));
      positions = std::max(positions, write.positions);
    }
    add_reads(program, specialized.layer, reads);
    for (std::size_t i = 0; i < program.effects.size(); ++i) {
      const graph::Effect& effect = program.effects[i];
      if (effect.kind != graph::EffectKind::kSkip || (!is_first && !says_layer[i])) continue;
      skips.push_back(effect.place.layer->at(specialized.layer));
    }
  }
  for (const graph::Effect& effect : program.effects)
    if (effect.kind == graph::EffectKind::kSave) saves.push_back(effect.name);
  json graph = graph::to_json(program);
  return {{"text", program.ast().source()},
          {"parameters", describe_parameters(program)},
          {"writes", std::move(writes)},
          {"reads", std::move(reads)},
          {"saves", std::move(saves)},
          {"skips", std::move(skips)},
          {"when", graph.value("when", json::object())},
          {"positions", positions},
          {"graph", std::move(graph)}};
}

}  // namespace tt::intervene
