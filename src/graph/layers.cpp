#include "src/graph/layers.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "src/graph/steps.h"

namespace tt::graph {
namespace {

bool says_layer(const Place& place) { return place.layer && place.layer->is_each; }

bool says_layer(const Leaf& leaf) {
  return leaf.kind == LeafKind::kLayer || leaf.row.is_each || says_layer(leaf.place);
}

bool uses_layer(const Program& program) {
  return std::ranges::any_of(
             program.effects, [](const Effect& effect) { return says_layer(effect.place); }) ||
         std::ranges::any_of(
             program.values,
             [](const Value& value) {
               return std::ranges::any_of(
                   value.leaves, [](const Leaf& leaf) { return says_layer(leaf); });
             });
}

// Checks that layer + offset is at least `first` and at most the number of layers.
bool check_ref(Reading& reading, expr::Span span, const LayerRef& ref, const Schedule& when,
               int first) {
  if (!ref.is_each) return true;
  const int num_layers = reading.model().num_layers();
  for (const int layer : when.layers) {
    const int number = ref.at(layer);
    if (number >= first && number <= num_layers) continue;
    const int lowest = std::max(1, first - ref.number);
    const int highest = std::min(num_layers, num_layers - ref.number);
    return reading.fail(span,
                        "where layer is " + std::to_string(layer) + " this would be layer " +
                            std::to_string(number) + ", and layers count from 1 to " +
                            std::to_string(num_layers),
                        lowest > highest ? "write a smaller number behind layer"
                                         : "write when(layers=\"" + std::to_string(lowest) + "-" +
                                               std::to_string(highest) + "\")");
  }
  return true;
}

bool check_leaf(Reading& reading, const Program& program, const Leaf& leaf) {
  const expr::Span span = reading.node(leaf.node).span;
  if (leaf.kind == LeafKind::kVector) return check_ref(reading, span, leaf.row, program.when, 0);
  return !leaf.place.layer || check_ref(reading, span, *leaf.place.layer, program.when, 1);
}

}  // namespace

std::vector<bool> find_layered(const Program& program) {
  std::vector<bool> layered(program.values.size(), false);
  std::map<std::string, std::size_t> saves;
  for (const Effect& effect : program.effects)
    if (effect.kind == EffectKind::kSave) saves.emplace(effect.name, effect.value);
  const auto is_layered = [&](const Leaf& leaf) {
    if (leaf.kind == LeafKind::kBinding) return static_cast<bool>(layered[leaf.value]);
    const auto save = leaf.kind == LeafKind::kSaved ? saves.find(leaf.name) : saves.end();
    return says_layer(leaf) || (save != saves.end() && layered[save->second]);
  };
  // A line may use a save of a later line, so another round may find more.
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < layered.size(); ++i) {
      if (layered[i] || std::ranges::none_of(program.values[i].leaves, is_layered)) continue;
      layered[i] = changed = true;
    }
  }
  return layered;
}

bool is_each(const Program& program, const Effect& effect, const std::vector<bool>& layered) {
  if (says_layer(effect.place)) return true;
  if (effect.condition && layered[*effect.condition]) return true;
  return effect.kind != EffectKind::kSkip && !program.values.empty() && layered[effect.value];
}

bool settle_layers(Reading& reading, Program& program) {
  program.uses_each_layer = uses_layer(program);
  auto& layers = program.when.layers;
  if (program.uses_each_layer && layers.empty()) {
    layers.resize(static_cast<std::size_t>(reading.model().num_layers()));
    std::iota(layers.begin(), layers.end(), 1);
  }
  for (const Value& value : program.values) {
    for (const Leaf& leaf : value.leaves)
      if (!check_leaf(reading, program, leaf)) return false;
  }
  for (const Effect& effect : program.effects)
    if (effect.place.layer &&
        !check_ref(reading, effect.span, *effect.place.layer, program.when, 1))
      return false;
  return true;
}

}  // namespace tt::graph
