#include <algorithm>
#include <set>

#include "src/graph/layers.h"
#include "src/graph/steps.h"

namespace tt::graph {
namespace {

// The latest read on which a value depends, at one layer.
struct Latest {
  std::int64_t moment = -1;
  Place place = {};
};

class OrderChecker {
 public:
  OrderChecker(Reading& reading, const Program& program)
      : reading_(reading), program_(program), layered_(find_layered(program)) {}

  bool check() {
    return check_count() && check_phase() && check_skipped() &&
           std::ranges::all_of(
               program_.effects, [this](const Effect& effect) { return check_effect(effect); });
  }

 private:
  std::vector<int> layers_of(const Effect& effect) const {
    return is_each(program_, effect, layered_) ? program_.when.layers : std::vector<int>{1};
  }

  bool check_count() {
    std::size_t count = 0;
    for (const Effect& effect : program_.effects) {
      count += layers_of(effect).size();
      if (count <= kMaxEffects) continue;
      return reading_.fail(effect.span,
                           "with this line there are " + std::to_string(count) +
                               " writes, saves and skips, the limit is " +
                               std::to_string(kMaxEffects),
                           "each layer counts: name fewer with when(layers=\"8-12\")");
    }
    return true;
  }

  // A backward pass exists only in training.
  bool check_phase() {
    if (program_.when.in_train) return true;
    for (const Value& value : program_.values) {
      for (const Leaf& leaf : value.leaves)
        if (leaf.kind == LeafKind::kPlace && leaf.place.gradient) return refuse_phase(leaf.node);
    }
    for (const Effect& effect : program_.effects)
      if (effect.place.gradient) return refuse_phase(program_.values[effect.value].root);
    return true;
  }

  bool refuse_phase(expr::NodeId node) {
    return reading_.fail(reading_.node(node).span,
                         "there are gradients in training only, and when(...) leaves it out",
                         "write when(phase=\"train\")");
  }

  std::int64_t moment(const Place& place, int layer) const {
    const int number = place.layer ? place.layer->at(layer) : 1;
    return places().moment(place.row, number, place.gradient);
  }

  Latest latest_of(const Leaf& leaf, const std::vector<Latest>& known, int layer) const {
    if (leaf.kind == LeafKind::kBinding) return known[leaf.value];
    if (leaf.kind != LeafKind::kPlace) return {};
    return {moment(leaf.place, layer), leaf.place.in(layer)};
  }

  // The latest reads of all values; a binding comes before its users.
  const std::vector<Latest>& latest_at(int layer) {
    auto& known = latest_[layer];
    if (!known.empty() || program_.values.empty()) return known;
    for (const Value& value : program_.values) {
      Latest latest;
      for (const Leaf& leaf : value.leaves) {
        Latest read = latest_of(leaf, known, layer);
        if (read.moment > latest.moment) latest = std::move(read);
      }
      known.push_back(std::move(latest));
    }
    return known;
  }

  bool check_effect(const Effect& effect) {
    if (effect.kind == EffectKind::kSave) return true;
    for (const int layer : layers_of(effect)) {
      Place written = effect.place.in(layer);
      std::int64_t limit = 0;
      if (effect.kind == EffectKind::kSkip) {
        limit = moment_before(written.layer->number);
      } else {
        limit = moment(effect.place, layer);
        if (!check_reads(effect, effect.value, limit, layer)) return false;
      }
      if (effect.condition && !check_reads(effect, *effect.condition, limit, layer)) return false;
    }
    return true;
  }

  // The moment of a layer's input.
  std::int64_t moment_before(int layer) const {
    const points::PlaceKey input = places().input_of_layer(layer);
    return places().moment(input.row, input.layer, false);
  }

  bool check_reads(const Effect& effect, std::size_t index, std::int64_t limit, int layer) {
    const auto& known = latest_at(layer);
    for (const Leaf& leaf : program_.values[index].leaves) {
      const Latest read = latest_of(leaf, known, layer);
      if (read.moment > limit) return refuse_read(effect, leaf, read, layer);
    }
    return true;
  }

  bool refuse_read(const Effect& effect, const Leaf& leaf, const Latest& read, int layer) {
    const expr::Span span = reading_.node(leaf.node).span;
    const std::string what = leaf.kind == LeafKind::kBinding ? in_quotes(leaf.name) + " reads " +
                                                                   to_string(read.place) + ", which"
                                                             : to_string(read.place);
    const bool is_skip = effect.kind == EffectKind::kSkip;
    const Place written = effect.place.in(layer);
    const std::string target =
        is_skip ? "the input of layers[" + std::to_string(written.layer->number) + "]"
                : to_string(written);
    if (read.place.gradient && !written.gradient) {
      return reading_.fail(span, what + " is known only in the backward pass",
                           "save it, and use saved(\"name\") in the step after");
    }
    return reading_.fail(span,
                         what + " is computed after " + target +
                             (is_skip ? ", where it is decided" : ", which this line writes"),
                         read.place.gradient
                             ? "the backward pass goes from the last layer to the first; for the "
                               "value of an earlier pass write saved(\"name\")"
                             : "write a place that is met before, or saved(\"name\") for the value "
                               "of an earlier pass");
  }

  bool check_skipped() {
    std::set<int> skipped;
    for (const Effect& effect : program_.effects) {
      if (effect.kind != EffectKind::kSkip || effect.condition) continue;
      for (const int layer : layers_of(effect)) skipped.insert(effect.place.layer->at(layer));
    }
    if (skipped.empty()) return true;
    return check_leaves_not_in(skipped) && check_writes_not_in(skipped);
  }

  std::optional<int> inside_of(const std::set<int>& skipped, const Place& place) const {
    if (!place.layer || place.row == places().layer_output()) return std::nullopt;
    const auto layers = place.layer->is_each ? program_.when.layers : std::vector<int>{1};
    for (const int layer : layers)
      if (skipped.contains(place.layer->at(layer))) return place.layer->at(layer);
    return std::nullopt;
  }

  bool check_leaves_not_in(const std::set<int>& skipped) {
    for (const Value& value : program_.values) {
      for (const Leaf& leaf : value.leaves) {
        if (leaf.kind != LeafKind::kPlace) continue;
        if (const auto layer = inside_of(skipped, leaf.place))
          return refuse_skipped(reading_.node(leaf.node).span, leaf.place, *layer, "is not there");
      }
    }
    return true;
  }

  bool check_writes_not_in(const std::set<int>& skipped) {
    for (const Effect& effect : program_.effects) {
      if (effect.kind != EffectKind::kWrite) continue;
      if (const auto layer = inside_of(skipped, effect.place))
        return refuse_skipped(effect.span, effect.place, *layer, "would be written for nothing");
    }
    return true;
  }

  bool refuse_skipped(expr::Span span, const Place& place, int layer, const std::string& what) {
    const std::string number = std::to_string(layer);
    return reading_.fail(span, to_string(place) + " " + what + ": layer " + number + " is skipped",
                         "use layers[" + number + "].output, or take the skip away");
  }

  const points::PlaceTable& places() const { return *reading_.model().places; }

  Reading& reading_;
  const Program& program_;
  std::vector<bool> layered_;
  std::map<int, std::vector<Latest>> latest_;
};

}  // namespace

bool check_order(Reading& reading, const Program& program) {
  return OrderChecker(reading, program).check();
}

}  // namespace tt::graph
