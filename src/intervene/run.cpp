#include "src/intervene/run.h"

#include <ATen/ATen.h>

#include <cmath>
#include <utility>

#include "src/intervene/resharding.h"
#include "tensor_tracer/comm/shards.h"
#include "tensor_tracer/intervene/engine.h"

namespace tt::intervene {
namespace {

// [batch, sequence] for the tensor of a place of more dims.
at::Tensor widen(const at::Tensor& mask, const PlaceRef& place) {
  std::vector<std::int64_t> sizes(place.shape.size(), 1);
  sizes[0] = mask.size(0);
  sizes[static_cast<std::size_t>(place.sequence_dim)] = mask.size(1);
  return mask.view(sizes);
}

nlohmann::json number(double value) {
  if (std::isfinite(value)) return value;
  if (std::isnan(value)) return "NaN";
  return value > 0 ? "Infinity" : "-Infinity";
}

}  // namespace

Run::Run(ActiveProgram& program, std::shared_ptr<const Specialization> ready, std::size_t instance,
         at::Tensor selected, const ForwardEnv& around)
    : program_(program),
      ready_(std::move(ready)),
      index_(instance),
      instance_(ready_->instances[instance]),
      selected_(std::move(selected)),
      selects_nothing_(selected_.defined() && !selected_.any().item<bool>()),
      around_(around),
      getters_(instance_.getters.size()),
      values_(instance_.units.size()) {}

void Run::act() {
  program_.counts.acted = true;
  // Once for all layers of the program.
  if (std::exchange(program_.acted_in, &around_) != &around_) ++program_.counts.forwards;
}

// A preview tells of its training batch.
bool Run::is_counted() const {
  return !program_.is_preview || around_.scope.phase == trace::Phase::kTrain;
}

void Run::fail() { ++program_.counts.failed; }

void Run::get(std::size_t index, const at::Tensor& now) {
  const Getter& getter = instance_.getters[index];
  Slot& slot = getters_[index];
  if (getter.ref.is_sharded()) {
    slot.placement = &getter.ref.placement;
    slot.local = now;
  } else {
    slot.full = now;
  }
  if (!getter.heads) return;
  slot.full = by_heads(full_of(slot), getter.ref.head_size).index(*getter.heads);
  slot.local = at::Tensor();
}

const at::Tensor& Run::full_of(Slot& slot) const {
  if (!slot.full.defined()) slot.full = gather_shards(slot.local, *slot.placement, around_.tensor);
  return slot.full;
}

at::Tensor Run::noise_of(const NoiseSource& noise, bool is_local) const {
  return draw_noise(noise.kind, noise.ref, around_.scope, around_.context.seed,
                    around_.tensor.rank(), around_.tensor.size(), is_local);
}

at::Tensor Run::saved_of(const std::string& name) const {
  const trace::ForwardScope& scope = around_.scope;
  const auto kept = program_.kept.find({scope.phase, scope.prompt_set, scope.first_row});
  if (kept == program_.kept.end()) return {};
  auto found = kept->second.find(saved_name(name, instance_.layer));
  if (found == kept->second.end()) found = kept->second.find(saved_name(name, 0));
  return found == kept->second.end() ? at::Tensor() : found->second;
}

at::Tensor Run::input_of(const Source& source, bool is_local) {
  switch (source.kind) {
    case Source::Kind::kGetter: {
      Slot& slot = getters_[source.index];
      return is_local && slot.local.defined() ? slot.local : full_of(slot);
    }
    case Source::Kind::kValue: {
      Slot& slot = values_[source.index];
      return is_local && slot.local.defined() ? slot.local : full_of(slot);
    }
    case Source::Kind::kParameter:
      return program_.parameters[source.index];
    case Source::Kind::kNoise:
      return noise_of(instance_.noises[source.index], is_local);
    case Source::Kind::kSaved:
      return saved_of(source.name);
    default:
      return source.constant;
  }
}

bool Run::must_wait(const CompiledValue& unit) const {
  for (const std::string& name : unit.saved) {
    if (!saved_of(name).defined()) return true;
  }
  return false;
}

bool Run::must_wait(const graph::Effect& effect) const {
  const bool has_value = effect.kind != graph::EffectKind::kSkip;
  return (has_value && must_wait(instance_.units[effect.value])) ||
         (effect.condition && must_wait(instance_.units[*effect.condition]));
}

void Run::compute(std::size_t index) {
  const CompiledValue& unit = instance_.units[index];
  if (must_wait(unit)) return;
  std::vector<at::Tensor> inputs;
  for (const Source& source : unit.sources) {
    const bool is_there =
        (source.kind != Source::Kind::kGetter || getters_[source.index].is_defined()) &&
        (source.kind != Source::Kind::kValue || values_[source.index].is_defined());
    if (!is_there) return;  // whoever needs this value counts it
    inputs.push_back(input_of(source, unit.is_local));
    if (unit.meets_cut && !unit.is_exact) inputs.back() = inputs.back().contiguous();
    if (source.kind == Source::Kind::kGetter) getters_[source.index] = {};
  }
  auto result = unit.program->run_with_gradient(inputs);
  if (!result) return;
  Slot& slot = values_[index];
  (unit.is_local ? slot.local : slot.full) = std::move(result).value();
  slot.placement = &unit.placement;
}

at::Tensor Run::condition_of(const graph::Effect& effect, bool is_local) {
  if (!effect.condition) return {};
  Slot& slot = values_[*effect.condition];
  return is_local && slot.local.defined() ? slot.local : full_of(slot);
}

at::Tensor Run::whole(const Write& write, const at::Tensor& local) const {
  if (!write.ref.is_sharded()) return local;
  if (write.ref.gradient) {
    return comm::all_gather_full(local, write.ref.placement, around_.tensor);
  }
  return gather_shards(local, write.ref.placement, around_.tensor);
}

at::Tensor Run::cut(const Write& write, const at::Tensor& full) const {
  if (!write.ref.is_sharded()) return full;
  if (write.ref.gradient) return scatter_partial_sums(full, write.ref.placement, around_.tensor);
  return scatter_shards(full, write.ref.placement, around_.tensor);
}

// The old tensor with the value where heads, index, condition and selection say.
at::Tensor Run::renew(const Write& write, const at::Tensor& old, const at::Tensor& value,
                      const at::Tensor& condition) const {
  const at::Tensor cast = value.to(old.scalar_type());
  const bool is_some = condition.defined();
  const auto chosen = [&](const at::Tensor& part) {
    const at::Tensor wide = cast.sizes() == part.sizes() ? cast : cast.expand_as(part);
    return is_some ? at::where(condition, wide, part) : wide;
  };
  at::Tensor renewed;
  if (!write.heads && !write.index) {
    renewed = chosen(old);
  } else {
    renewed = old.clone();
    at::Tensor part = write.heads ? by_heads(renewed, write.ref.head_size) : renewed;
    if (!write.heads) {
      part.index_put_(*write.index, is_some ? chosen(old.index(*write.index)) : cast);
    } else {
      at::Tensor inside = by_heads(old, write.ref.head_size).index(*write.heads);
      if (write.index) {
        inside = inside.clone();
        inside.index_put_(*write.index, chosen(inside.index(*write.index)));
      } else {
        inside = chosen(inside);
      }
      part.index_put_(*write.heads, inside);
    }
  }
  if (selected_.defined() && !write.ref.is_weight) {
    renewed = at::where(widen(selected_, write.ref), renewed, old);
  }
  return renewed.contiguous();
}

// One number for a part of the shard.
at::Tensor Run::fill(const Write& write, const at::Tensor& now, const at::Tensor& value,
                     const at::Tensor& condition) const {
  at::Tensor where;
  const auto narrow_to = [&where](const at::Tensor& mask) {
    where = where.defined() ? where.logical_and(mask) : mask;
  };
  if (write.region.defined()) {
    narrow_to(comm::take_shard(write.region, write.ref.placement, around_.tensor.rank(),
                               around_.tensor.size()));
  }
  if (condition.defined()) narrow_to(condition);
  if (selected_.defined() && !write.ref.is_weight) narrow_to(widen(selected_, write.ref));
  const at::Tensor one = value.to(now.scalar_type()).reshape({});
  return where.defined() ? at::where(where, one, now) : one.expand_as(now).contiguous();
}

at::Tensor Run::write_gathered(const Write& write, const at::Tensor& now) {
  const graph::Effect& effect = program_.program.effects[write.effect];
  const at::Tensor old = whole(write, now);
  const at::Tensor& value = full_of(values_[effect.value]);
  return cut(write, renew(write, old, value, condition_of(effect, false)));
}

at::Tensor Run::write(std::size_t index, const at::Tensor& now) {
  if (selects_nothing_) return now;
  const Write& write = instance_.writes[index];
  const graph::Effect& effect = program_.program.effects[write.effect];
  if (must_wait(effect)) {
    ++program_.counts.waiting;
    return now;
  }
  Slot& value = values_[effect.value];
  if (!value.is_defined() || (effect.condition && !values_[*effect.condition].is_defined())) {
    fail();
    return now;
  }
  act();
  at::Tensor renewed;
  if (write.path == WritePath::kGathered) {
    renewed = write_gathered(write, now);
  } else if (write.path == WritePath::kFilled) {
    renewed = fill(write, now, full_of(value), condition_of(effect, true));
  } else {
    const at::Tensor& from = write.ref.is_sharded() ? value.local : full_of(value);
    renewed = renew(write, now, from, condition_of(effect, write.ref.is_sharded()));
  }
  count(write, now);
  if (program_.is_preview && is_counted()) sum_change(write, now, renewed);
  return renewed;
}

void Run::count(std::size_t effect, std::int64_t positions) {
  program_.counts.positions += positions;
  program_.counts.places[program_.place_of(effect, index_)] += positions;
}

// Which numbers of the logical tensor it wrote.
at::Tensor Run::touched_by(const Write& write, const at::Tensor& condition) const {
  if (!condition.defined()) {
    const at::Tensor region =
        write.region.defined() ? write.region
                               : at::ones(write.ref.shape, at::device(at::kCPU).dtype(at::kBool));
    return region.logical_and(widen(selected_, write.ref));
  }
  const at::Tensor none = at::zeros(write.ref.shape, at::device(at::kCPU).dtype(at::kBool));
  return renew(write, none, at::ones({}, at::device(at::kCPU).dtype(at::kBool)), condition);
}

// A condition that was computed on shards is not gathered to be counted.
void Run::count(const Write& write, const at::Tensor& now) {
  if (!is_counted()) return;
  const graph::Effect& effect = program_.program.effects[write.effect];
  if (write.ref.is_weight || !(effect.condition || selected_.defined())) {
    return count(write.effect, write.positions);
  }
  const at::NoGradGuard no_grad;
  const Slot* condition = effect.condition ? &values_[*effect.condition] : nullptr;
  if (condition == nullptr || condition->full.defined() || condition->placement->dim < 2) {
    const at::Tensor touched = touched_by(write, condition_of(effect, false));
    return count(write.effect, positions_of(touched, write.ref).sum().item<std::int64_t>());
  }
  at::Tensor touched = condition->local.expand(now.sizes());
  if (selected_.defined()) touched = touched.logical_and(widen(selected_, write.ref));
  program_.counts.touched.push_back(
      {program_.place_of(write.effect, index_), positions_of(touched, write.ref)});
}

void Run::sum_change(const Write& write, const at::Tensor& before, const at::Tensor& after) {
  const at::NoGradGuard no_grad;
  const at::Tensor old = whole(write, before.detach()).to(at::kDouble);
  const at::Tensor difference = whole(write, after.detach()).to(at::kDouble) - old;
  Change& change = program_.changes[program_.place_of(write.effect, index_)];
  change.before += old.square().sum().item<double>();
  change.change += difference.square().sum().item<double>();
}

void Run::save(std::size_t index) {
  const graph::Effect& effect = program_.program.effects[index];
  Slot& slot = values_[effect.value];
  if (must_wait(effect)) {
    ++program_.counts.waiting;
    return;
  }
  if (!slot.is_defined() || (effect.condition && !values_[*effect.condition].is_defined())) {
    fail();
    return;
  }
  if (effect.condition && !full_of(values_[*effect.condition]).all().item<bool>()) return;
  const at::Tensor value = full_of(slot).detach();
  act();
  const int layer = program_.says_layer[index] ? instance_.layer : 0;
  if (program_.read_back.contains(effect.name)) {
    const bool is_view = value.storage().nbytes() != value.nbytes();
    const bool may_change = instance_.units[effect.value].may_change;
    program_.saves[saved_name(effect.name, layer)] = is_view || may_change ? value.clone() : value;
  }
  // Of an evaluation's many batches the first is told, as it is the one that is watched.
  if (!effect.sends || around_.saved == nullptr || around_.scope.batch > 0) return;
  *around_.numbers_sent += static_cast<std::size_t>(value.numel());
  if (*around_.numbers_sent > kMaxSentOfStep) return fail();
  nlohmann::json values = nlohmann::json::array();
  const at::Tensor numbers = value.to(at::kDouble).contiguous();
  const double* first = numbers.const_data_ptr<double>();
  for (std::int64_t i = 0; i < numbers.numel(); ++i) values.push_back(number(first[i]));
  const trace::ForwardScope& scope = around_.scope;
  around_.saved->push_back({{"step", scope.step},
                            {"micro_batch", scope.micro_batch},
                            {"phase", scope.phase == trace::Phase::kTrain ? "train" : "eval"},
                            {"prompt_set", scope.prompt_set},
                            {"first_row", scope.first_row},
                            {"program", program_.name},
                            {"name", effect.name},
                            {"layer", layer},
                            {"shape", value.sizes().vec()},
                            {"values", std::move(values)}});
}

bool Run::skips(std::size_t index) {
  const graph::Effect& effect = program_.program.effects[index];
  if (must_wait(effect)) ++program_.counts.waiting;
  at::Tensor decision = at::ones({1}, at::device(at::kCPU).dtype(at::kByte));
  if (effect.condition) {
    Slot& slot = values_[*effect.condition];
    decision.fill_(slot.is_defined() && full_of(slot).all().item<bool>() ? 1 : 0);
    around_.tensor.broadcast(decision, 0);
  }
  if (decision.item<std::uint8_t>() == 0) return false;
  act();
  if (is_counted()) count(index, instance_.shape.batch * instance_.shape.sequence);
  return true;
}

}  // namespace tt::intervene
