#include "src/intervene/budget.h"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <limits>
#include <map>

#include "src/intervene/places.h"
#include "tensor_tracer/expr/diagnostic.h"
#include "tensor_tracer/intervene/engine.h"

namespace tt::intervene {
namespace {

/// A value or a getter's tensor that is held from moment `first` to moment `last`, both included.
struct Stay {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t bytes = 0;
  std::int64_t more_at_first = 0;  // while it is computed
  std::size_t value = 0;           // index in the program
};

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kAlways = std::numeric_limits<std::int64_t>::max();

// The moment at which each value is used last. kNever: nothing uses the value, so it is not
// computed.
std::vector<std::int64_t> last_uses(const graph::Program& program,
                                    const LayerSpecialization& specialized) {
  std::vector<std::int64_t> last(specialized.values.size(), kNever);
  const auto use = [&](std::size_t value, std::int64_t moment) {
    last[value] = std::max(last[value], moment);
  };
  for (const Write& write : specialized.writes) {
    const graph::Effect& effect = program.effects[write.effect];
    use(effect.value, write.moment);
    if (effect.condition) use(*effect.condition, write.moment);
  }
  for (const graph::Effect& effect : program.effects) {
    if (effect.kind == graph::EffectKind::kWrite) continue;
    const bool is_skip = effect.kind == graph::EffectKind::kSkip;
    std::int64_t moment = is_skip ? kAlways : specialized.values[effect.value].moment;
    if (effect.condition) moment = std::max(moment, specialized.values[*effect.condition].moment);
    if (!is_skip) use(effect.value, moment);
    if (effect.condition) use(*effect.condition, moment);
  }
  for (std::size_t i = specialized.values.size(); i-- > 0;) {
    if (last[i] == kNever) continue;
    for (const Source& source : specialized.values[i].sources)
      if (source.kind == Source::Kind::kValue) use(source.index, specialized.values[i].moment);
  }
  return last;
}

void add_stays(const graph::Program& program, const LayerSpecialization& specialized,
               std::vector<Stay>& stays) {
  const auto last = last_uses(program, specialized);
  for (std::size_t i = 0; i < specialized.values.size(); ++i) {
    const CompiledValue& value = specialized.values[i];
    if (last[i] == kNever) continue;
    stays.push_back({value.moment, std::max(last[i], value.moment), value.held.bytes,
                     std::max<std::int64_t>(value.live_bytes - value.held.bytes, 0), i});
  }
  for (const Getter& getter : specialized.getters) {
    const std::int64_t used = specialized.values[getter.value].moment;
    if (last[getter.value] == kNever || getter.moment == used) continue;
    stays.push_back({getter.moment, used, bytes_of(getter.ref), 0, getter.value});
  }
}

// Bytes of the largest place that the program names.
std::int64_t largest_place(const graph::Program& program, const Context& context,
                           const Shape& shape, int layer) {
  std::int64_t largest = 0;
  const auto take = [&](const graph::Place& place) {
    largest = std::max(largest, bytes_of(find_place_ref(place, layer, context, shape)));
  };
  for (const graph::Value& value : program.values) {
    for (const graph::Leaf& leaf : value.leaves)
      if (!leaf.place.point.empty()) take(leaf.place);
  }
  for (const graph::Effect& effect : program.effects)
    if (effect.kind == graph::EffectKind::kWrite) take(effect.place);
  return largest;
}

base::Error too_much(const graph::Program& program, std::size_t value, const std::string& what) {
  const expr::Span span = program.ast().node(program.values[value].root).span;
  return expr::to_error(program.ast(),
                        {span, what, "reduce more, or let the program stand for fewer layers"});
}

base::Status check_cost(const graph::Program& program,
                        const std::vector<LayerSpecialization>& layers) {
  double cost = 0;
  for (const LayerSpecialization& specialized : layers) {
    const auto last = last_uses(program, specialized);
    for (std::size_t i = 0; i < last.size(); ++i)
      if (last[i] != kNever) cost += specialized.values[i].cost;
  }
  if (cost <= kMaxCost) return {};
  const auto& values = layers.front().values;
  const auto most = std::ranges::max_element(values, {}, &CompiledValue::cost);
  return too_much(program, static_cast<std::size_t>(most - values.begin()),
                  "in one forward the program costs about " +
                      std::to_string(static_cast<std::int64_t>(cost)) +
                      " element operations, this line the most; the limit is " +
                      std::to_string(static_cast<std::int64_t>(kMaxCost)));
}

base::Status check_memory(const graph::Program& program, const std::vector<Stay>& stays,
                          std::int64_t limit) {
  std::map<std::int64_t, std::int64_t> change;  // by moment
  for (const Stay& one : stays) {
    change[one.first] += one.bytes;
    if (one.last < kAlways) change[one.last + 1] -= one.bytes;
  }
  std::int64_t held = 0;
  for (auto& [moment, bytes] : change) held = bytes += held;
  for (const Stay& one : stays) {
    const std::int64_t bytes = change[one.first] + one.more_at_first;
    if (bytes <= limit) continue;
    return too_much(program, one.value,
                    "here the lines of the program hold " + std::to_string(bytes) +
                        " bytes at one time, the limit is " + std::to_string(limit));
  }
  return {};
}

}  // namespace

std::int64_t bytes_of(const PlaceRef& ref) {
  return c10::multiply_integers(ref.shape) * static_cast<std::int64_t>(c10::elementSize(ref.dtype));
}

eval::Limits limits_of(const graph::Program& program, const Context& context, const Shape& shape,
                       int layer) {
  eval::Limits limits;
  limits.max_result_elements = kMaxElements;
  limits.max_intermediate_elements = kMaxElements;
  limits.max_live_bytes =
      kMaxLiveBytes + kMaxLivePlaces * largest_place(program, context, shape, layer);
  limits.max_tried_elements = kMaxTriedElements;
  limits.max_cost = kMaxCost;
  return limits;
}

base::Status check_budget(const graph::Program& program,
                          const std::vector<LayerSpecialization>& layers, const Context& context) {
  if (auto status = check_cost(program, layers); !status) return status;
  std::vector<Stay> stays;
  std::int64_t limit = 0;
  for (const LayerSpecialization& one : layers) {
    add_stays(program, one, stays);
    limit = std::max(limit, limits_of(program, context, one.shape, one.layer).max_live_bytes);
  }
  return check_memory(program, stays, limit);
}

}  // namespace tt::intervene
