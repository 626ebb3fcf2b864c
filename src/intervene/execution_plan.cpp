#include "src/intervene/execution_plan.h"

#include <algorithm>
#include <tuple>

#include "src/intervene/places.h"

namespace tt::intervene {
namespace {

bool is_tokens(std::size_t key, const points::PlaceTable& places) {
  const std::size_t row = key / (static_cast<std::size_t>(places.num_layers()) + 1);
  return row < places.rows().size() && places.rows()[row].holds_integers();
}

/// An action with the keys that sort it.
struct Planned {
  Action action;
  std::size_t program = 0;
  std::size_t key = 0;
  std::int64_t moment = 0;
  std::uint32_t line = 0;  // start of the statement in the text
  int rank = 0;            // 0: reads, 1: values, 2: writes and saves
};

class Planner {
 public:
  Planner(const Entry& entry, std::size_t run, std::size_t at_once)
      : program_(*entry.program),
        layer_(*entry.layer),
        left_out_(*entry.is_left_out),
        run_(run),
        program_index_(entry.program_index),
        at_once_(at_once),
        line_of_value_(program_.values.size()),
        is_needed_(program_.values.size(), false) {
    for (std::size_t i = 0; i < program_.values.size(); ++i)
      line_of_value_[i] = program_.ast().node(program_.values[i].root).span.begin;
  }

  std::vector<Planned> plan() {
    for (std::size_t i = 0; i < program_.effects.size(); ++i)
      if (!left_out_[i]) need(program_.effects[i]);
    add_values();
    add_effects();
    std::ranges::stable_sort(planned_, {}, [](const Planned& one) {
      return std::tuple(one.moment, one.line, one.rank);
    });
    free_values();
    return std::move(planned_);
  }

 private:
  void need(const graph::Effect& effect) {
    const auto mark = [&](std::size_t value) {
      line_of_value_[value] = std::min(line_of_value_[value], effect.span.begin);
      need_value(value);
    };
    if (effect.kind != graph::EffectKind::kSkip) mark(effect.value);
    if (effect.condition) mark(*effect.condition);
  }

  void need_value(std::size_t value) {
    if (is_needed_[value]) return;
    is_needed_[value] = true;
    for (const Source& source : layer_.values[value].sources) {
      if (source.kind != Source::Kind::kValue) continue;
      // The argument of a module stands inside its user, and comes before it.
      line_of_value_[source.index] = std::min(line_of_value_[source.index], line_of_value_[value]);
      need_value(source.index);
    }
  }

  void add(ActionKind kind, std::size_t index, std::size_t key, std::int64_t moment,
           std::uint32_t line, int rank) {
    planned_.push_back(
        {{kind, run_, index}, program_index_, moment < 0 ? at_once_ : key, moment, line, rank});
  }

  void add_values() {
    for (std::size_t i = 0; i < layer_.getters.size(); ++i) {
      const Getter& getter = layer_.getters[i];
      if (!is_needed_[getter.value]) continue;
      add(ActionKind::kGet, i, getter.key, getter.moment, line_of_value_[getter.value], 0);
    }
    for (std::size_t i = 0; i < layer_.values.size(); ++i) {
      const CompiledValue& value = layer_.values[i];
      if (is_needed_[i])
        add(ActionKind::kCompute, i, value.key, value.moment, line_of_value_[i], 1);
    }
  }

  void add_effects() {
    for (std::size_t i = 0; i < layer_.writes.size(); ++i) {
      const Write& write = layer_.writes[i];
      if (left_out_[write.effect]) continue;
      const std::uint32_t line = program_.effects[write.effect].span.begin;
      add(ActionKind::kWrite, i, write.key, write.moment, line, 2);
    }
    for (std::size_t i = 0; i < program_.effects.size(); ++i) {
      const graph::Effect& effect = program_.effects[i];
      if (effect.kind != graph::EffectKind::kSave || left_out_[i]) continue;
      const CompiledValue* latest = &layer_.values[effect.value];
      if (effect.condition && layer_.values[*effect.condition].moment > latest->moment)
        latest = &layer_.values[*effect.condition];
      add(ActionKind::kSave, i, latest->key, latest->moment, effect.span.begin, 2);
    }
  }

  std::vector<std::size_t> used_by(const Action& action) const {
    std::vector<std::size_t> used;
    if (action.kind == ActionKind::kCompute) {
      for (const Source& source : layer_.values[action.index].sources)
        if (source.kind == Source::Kind::kValue) used.push_back(source.index);
    } else if (action.kind == ActionKind::kWrite || action.kind == ActionKind::kSave) {
      const std::size_t effect =
          action.kind == ActionKind::kWrite ? layer_.writes[action.index].effect : action.index;
      used.push_back(program_.effects[effect].value);
      if (program_.effects[effect].condition) used.push_back(*program_.effects[effect].condition);
    }
    return used;
  }

  // The last user of a value frees it. Values in the condition of a skip stay.
  void free_values() {
    std::vector<bool> is_used_later(program_.values.size(), false);
    for (const graph::Effect& effect : program_.effects)
      if (effect.kind == graph::EffectKind::kSkip && effect.condition)
        is_used_later[*effect.condition] = true;
    for (auto planned = planned_.rbegin(); planned != planned_.rend(); ++planned) {
      for (const std::size_t value : used_by(planned->action)) {
        if (!is_used_later[value]) planned->action.frees.push_back(value);
        is_used_later[value] = true;
      }
    }
  }

  const graph::Program& program_;
  const LayerSpecialization& layer_;
  const std::vector<bool>& left_out_;
  const std::size_t run_;
  const std::size_t program_index_;
  const std::size_t at_once_;
  std::vector<std::uint32_t> line_of_value_;
  std::vector<bool> is_needed_;
  std::vector<Planned> planned_;
};

}  // namespace

ExecutionPlan::ExecutionPlan(const std::vector<Entry>& entries, const Context& context)
    : keys_(num_action_keys(context.places())),
      skips_(static_cast<std::size_t>(context.model.num_layers()) + 1) {
  std::vector<Planned> all;
  for (std::size_t run = 0; run < entries.size(); ++run) {
    const Entry& entry = entries[run];
    specializations_.push_back(entry.specialization);
    for (Planned& one : Planner(entry, run, keys_).plan()) all.push_back(std::move(one));
    for (std::size_t i = 0; i < entry.program->effects.size(); ++i) {
      const graph::Effect& effect = entry.program->effects[i];
      if (effect.kind != graph::EffectKind::kSkip || (*entry.is_left_out)[i]) continue;
      const int layer = effect.place.layer->at(entry.layer->layer);
      skips_[static_cast<std::size_t>(layer)].push_back({ActionKind::kSkip, run, i});
    }
  }
  // The tokens are known before the first place.
  for (Planned& one : all)
    if (one.key < keys_ && is_tokens(one.key, context.places())) one.key = keys_;
  std::ranges::stable_sort(all, {}, [](const Planned& one) {
    return std::tuple(one.key, one.program, one.moment, one.line, one.action.run, one.rank);
  });
  begin_.assign(keys_ + 2, 0);
  for (const Planned& one : all) ++begin_[one.key + 1];
  for (std::size_t key = 1; key < begin_.size(); ++key) begin_[key] += begin_[key - 1];
  for (Planned& one : all) actions_.push_back(std::move(one.action));
  const std::size_t values = keys_ / 2;
  acts_ = std::make_unique<bool[]>(values);
  for (std::size_t key = 0; key < values; ++key)
    acts_[key] = !at(key).empty() || !at(key + values).empty();
}

std::span<const Action> ExecutionPlan::skips_of(int layer) const {
  if (skips_.empty()) return {};
  return skips_[static_cast<std::size_t>(layer)];
}

}  // namespace tt::intervene
