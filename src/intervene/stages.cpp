#include "src/intervene/stages.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "tensor_tracer/expr/diagnostic.h"

namespace tt::intervene {
namespace {

using points::kEveryStage;

/// A stage, and the place that needs it.
struct Need {
  int stage = kEveryStage;
  std::string place;
};

/// Finds the stage of one effect for one layer of the program.
class StageFinder {
 public:
  StageFinder(const graph::Program& program, int layer, const points::PlaceTable& places)
      : program_(program),
        layer_(layer),
        places_(places),
        has_value_(program.values.size(), false) {}

  base::Result<int> find(std::size_t index) {
    const graph::Effect& effect = program_.effects[index];
    add_effect(index);
    if (other_) {
      return expr::to_error(
          program_.ast(),
          {effect.span,
           "this line needs " + need_.place + " of pipeline stage " + std::to_string(need_.stage) +
               " and " + other_->place + " of stage " + std::to_string(other_->stage),
           "use places of one stage in a line"});
    }
    if (need_.stage > 0 && !program_.when.token_text.empty() && !every_stage_has_tokens()) {
      return expr::to_error(program_.ast(), {effect.span,
                                             "token_text needs the tokens, which pipeline stage " +
                                                 std::to_string(need_.stage) + " does not get",
                                             "give every rank the tokens in run.step(tokens=…)"});
    }
    return std::max(need_.stage, 0);
  }

 private:
  bool every_stage_has_tokens() const {
    return std::ranges::any_of(
        places_.rows(),
        [](const points::Place& row) { return row.holds_integers() && row.stage == kEveryStage; });
  }

  void add(int stage, std::string place) {
    if (stage == kEveryStage || stage == need_.stage || other_) return;
    if (need_.stage == kEveryStage)
      need_ = {stage, std::move(place)};
    else
      other_ = {stage, std::move(place)};
  }

  void add_place(const graph::Place& named) {
    const graph::Place place = named.in(layer_);
    add(places_.stage_of(place.row, place.layer ? place.layer->number : 0),
        graph::to_string(place));
  }

  void add_value(std::size_t index) {
    if (has_value_[index]) return;
    has_value_[index] = true;
    if (const std::string& module = program_.values[index].module; !module.empty())
      add_module(module);
    for (const graph::Leaf& leaf : program_.values[index].leaves) {
      if (leaf.kind == graph::LeafKind::kPlace) add_place(leaf.place);
      if (leaf.kind == graph::LeafKind::kBinding) add_value(leaf.value);
      if (leaf.kind == graph::LeafKind::kSaved) add_saves(leaf.name);
    }
  }

  // The stage with the logits has final norm and output layer.
  void add_module(const std::string& module) {
    if (const auto logits = places_.find("logits"))
      add(places_.stage_of(*logits, places_.rows()[*logits].last_layer), module);
  }

  void add_saves(const std::string& name) {
    for (std::size_t i = 0; i < program_.effects.size(); ++i) {
      const graph::Effect& effect = program_.effects[i];
      if (effect.kind == graph::EffectKind::kSave && effect.name == name) add_effect(i);
    }
  }

  void add_effect(std::size_t index) {
    const graph::Effect& effect = program_.effects[index];
    if (effect.kind == graph::EffectKind::kWrite) add_place(effect.place);
    if (effect.kind == graph::EffectKind::kSkip) {
      const int layer = effect.place.layer->at(layer_);
      add(places_.stage_of(places_.layer_output(), layer), "layers[" + std::to_string(layer) + "]");
    } else {
      add_value(effect.value);
    }
    if (effect.condition) add_value(*effect.condition);
  }

  const graph::Program& program_;
  const int layer_;
  const points::PlaceTable& places_;
  std::vector<bool> has_value_;
  Need need_;
  std::optional<Need> other_;
};

}  // namespace

base::Result<EffectStages> find_stages(const graph::Program& program,
                                       const std::vector<int>& layers,
                                       const points::PlaceTable& places) {
  EffectStages stages;
  for (const int layer : layers) {
    std::vector<int>& of_layer = stages.emplace_back(program.effects.size(), 0);
    for (std::size_t i = 0; places.num_stages() > 1 && i < of_layer.size(); ++i) {
      const auto stage = StageFinder(program, layer, places).find(i);
      if (!stage) return stage.error();
      of_layer[i] = stage.value();
    }
  }
  return stages;
}

}  // namespace tt::intervene
