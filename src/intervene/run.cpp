#include "src/intervene/run.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <utility>

#include "src/intervene/resharding.h"
#include "tensor_tracer/comm/shards.h"
#include "tensor_tracer/intervene/engine.h"

namespace tt::intervene {
namespace {

// Views a mask [batch, sequence] with all dims of the place.
at::Tensor widen(const at::Tensor& mask, const PlaceRef& place) {
  std::vector<std::int64_t> sizes(place.shape.size(), 1);
  sizes[0] = mask.size(0);
  sizes[static_cast<std::size_t>(place.sequence_dim)] = mask.size(1);
  return mask.view(sizes);
}

}  // namespace

Run::Run(ProgramPass& of, std::shared_ptr<const Specialization> specialization,
         std::size_t layer_index, const at::Tensor& selected, const ForwardEnv& env)
    : pass_(of),
      program_(*of.program),
      specialization_(std::move(specialization)),
      layer_index_(layer_index),
      layer_(specialization_->layers[layer_index]),
      selected_(selected.defined() ? selected.to(env.context.device) : selected),
      selects_nothing_(selected.defined() && !selected.any().item<bool>()),
      env_(env),
      getters_(layer_.getters.size()),
      values_(layer_.values.size()) {}

void Run::act() {
  if (is_silent()) return;
  program_.counts.acted = true;
  // Count the forward once for all layers of the program.
  if (!std::exchange(pass_.has_acted, true) && counts_here()) ++program_.counts.forwards;
}

bool Run::is_silent() const { return env_.is_repeat || env_.is_preview != program_.is_preview; }

bool Run::counts_here() const { return !is_silent() && !env_.scope.is_copy; }

bool Run::is_counted() const {
  return counts_here() && (!program_.is_preview || env_.scope.phase == program_.reported);
}

void Run::fail() {
  if (counts_here()) ++program_.counts.failed;
}

void Run::wait() {
  if (counts_here()) ++program_.counts.waiting;
}

// A recomputation may need the value again.
void Run::free(std::size_t value) {
  if (!env_.scope.recomputes) values_[value] = {};
}

void Run::get(std::size_t index, const at::Tensor& now) {
  const Getter& getter = layer_.getters[index];
  Slot& slot = getters_[index];
  slot = {};
  if (getter.ref.is_sharded()) {
    slot.placement = &getter.ref.placement;
    slot.local = now;
  } else {
    slot.full = now.to(env_.context.device);  // the tokens may be on the CPU
  }
  if (!getter.heads) return;
  slot.full = by_heads(full_of(slot), getter.ref.head_size).index(*getter.heads);
  slot.local = at::Tensor();
}

const at::Tensor& Run::full_of(Slot& slot) const {
  if (!slot.full.defined()) slot.full = gather_shards(slot.local, *slot.placement, env_.tensor);
  return slot.full;
}

// The shard if `is_local` and the slot has a shard, else the logical tensor.
const at::Tensor& Run::tensor_of(Slot& slot, bool is_local) const {
  return is_local && slot.local.defined() ? slot.local : full_of(slot);
}

at::Tensor Run::saved_of(const std::string& name) const {
  const auto kept = program_.kept.find(kind_of(env_.scope));
  if (kept == program_.kept.end()) return {};
  auto found = kept->second.find(saved_name(name, layer_.layer));
  if (found == kept->second.end()) found = kept->second.find(saved_name(name, 0));
  return found == kept->second.end() ? at::Tensor() : found->second;
}

at::Tensor Run::input_of(const Source& source, bool is_local) {
  switch (source.kind) {
    case Source::Kind::kGetter:
      return tensor_of(getters_[source.index], is_local);
    case Source::Kind::kValue:
      return tensor_of(values_[source.index], is_local);
    case Source::Kind::kParameter:
      return pass_.values->parameters[source.index].to(env_.context.device);
    case Source::Kind::kNoise: {
      const NoiseSource& noise = layer_.noises[source.index];
      return draw_noise(noise.kind, noise.ref, env_.scope, env_.context.seed, env_.tensor->rank(),
                        env_.tensor->size(), is_local)
          .to(env_.context.device);
    }
    case Source::Kind::kSaved:
      return saved_of(source.name);
    default:
      return source.constant;
  }
}

bool Run::must_wait(const CompiledValue& compiled) const {
  for (const std::string& name : compiled.saved)
    if (!saved_of(name).defined()) return true;
  return false;
}

bool Run::must_wait(const graph::Effect& effect) const {
  const bool has_value = effect.kind != graph::EffectKind::kSkip;
  return (has_value && must_wait(layer_.values[effect.value])) ||
         (effect.condition && must_wait(layer_.values[*effect.condition]));
}

// False: the effect waits for a save, or a line that it needs could not run.
bool Run::has_values(const graph::Effect& effect) {
  if (must_wait(effect)) {
    wait();
    return false;
  }
  const bool is_there = values_[effect.value].is_defined() &&
                        (!effect.condition || values_[*effect.condition].is_defined());
  if (!is_there) fail();
  return is_there;
}

void Run::compute(std::size_t index) {
  const CompiledValue& compiled = layer_.values[index];
  if (must_wait(compiled)) return;
  if (compiled.module != Module::kNone) return call_module(compiled, values_[index]);
  std::vector<at::Tensor> inputs;
  for (const Source& source : compiled.sources) {
    const bool is_there =
        (source.kind != Source::Kind::kGetter || getters_[source.index].is_defined()) &&
        (source.kind != Source::Kind::kValue || values_[source.index].is_defined());
    if (!is_there) return;  // has_values() of the effect counts the failure
    inputs.push_back(input_of(source, compiled.is_local));
    if (compiled.meets_shards && !compiled.is_exact) inputs.back() = inputs.back().contiguous();
    if (source.kind == Source::Kind::kGetter && !env_.scope.recomputes) getters_[source.index] = {};
  }
  auto result = compiled.program->run_with_gradient(inputs);
  if (!result) return;
  Slot& slot = values_[index];
  slot = {};
  // eval::Program computes a value without inputs on the CPU.
  (compiled.is_local ? slot.local : slot.full) = std::move(result).value().to(env_.context.device);
  slot.placement = &compiled.placement;
}

void Run::call_module(const CompiledValue& compiled, Slot& result) {
  Slot& argument = values_[compiled.sources.front().index];
  const auto& call =
      compiled.module == Module::kFinalNorm ? env_.modules.final_norm : env_.modules.output_layer;
  if (!argument.is_defined() || !call) return;
  at::Tensor value = call(full_of(argument).to(env_.context.dtype));
  result = {};
  (compiled.is_local ? result.local : result.full) = std::move(value);
  result.placement = &compiled.placement;
}

at::Tensor Run::condition_of(const graph::Effect& effect, bool is_local) {
  if (!effect.condition) return {};
  return tensor_of(values_[*effect.condition], is_local);
}

at::Tensor Run::whole(const Write& write, const at::Tensor& local) const {
  if (!write.ref.is_sharded()) return local;
  if (write.ref.gradient) return comm::all_gather_full(local, write.ref.placement, *env_.tensor);
  return gather_shards(local, write.ref.placement, env_.tensor);
}

at::Tensor Run::shard(const Write& write, const at::Tensor& full) const {
  if (!write.ref.is_sharded()) return full;
  if (write.ref.gradient)
    return scatter_partial_sums(full, write.ref.placement, env_.tensor->rank(),
                                env_.tensor->size());
  return scatter_shards(full, write.ref.placement, env_.tensor);
}

// The positions that the program's `when` selects, with all dims of the place: of the logical
// tensor, or of this rank's part.
at::Tensor Run::selection(const Write& write, bool is_local) const {
  const at::Tensor wide = widen(selected_, write.ref);
  const mesh::Placement& placement = write.ref.placement;
  const bool is_cut = is_local && placement.is_sharded() && placement.dim == write.ref.sequence_dim;
  if (!is_cut) return wide;
  return comm::take_shard(wide, placement, env_.tensor->rank(), env_.tensor->size());
}

// The old tensor, with `value` at the elements that heads, index, condition and selection choose.
// `is_local`: all are this rank's part.
at::Tensor Run::renew(const Write& write, const at::Tensor& old, const at::Tensor& value,
                      const at::Tensor& condition, bool is_local) const {
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
  if (selected_.defined() && !write.ref.is_weight)
    renewed = at::where(selection(write, is_local), renewed, old);
  return renewed.contiguous();
}

// Writes one number to a part of the shard.
at::Tensor Run::fill(const Write& write, const at::Tensor& now, const at::Tensor& value,
                     const at::Tensor& condition) const {
  at::Tensor where;
  const auto narrow_to = [&where](const at::Tensor& mask) {
    where = where.defined() ? where.logical_and(mask) : mask;
  };
  if (write.region.defined()) {
    narrow_to(comm::take_shard(write.region, write.ref.placement, env_.tensor->rank(),
                               env_.tensor->size()));
  }
  if (condition.defined()) narrow_to(condition);
  if (selected_.defined() && !write.ref.is_weight) narrow_to(selection(write, true));
  const at::Tensor one = value.to(now.scalar_type()).reshape({});
  return where.defined() ? at::where(where, one, now) : one.expand_as(now).contiguous();
}

at::Tensor Run::write(std::size_t index, const at::Tensor& now) {
  if (selects_nothing_) return now;
  const Write& write = layer_.writes[index];
  const graph::Effect& effect = program_.program.effects[write.effect];
  if (!has_values(effect)) return now;
  Slot& value = values_[effect.value];
  act();
  at::Tensor renewed;
  if (write.path == WritePath::kGathered) {
    // Each of the three calls may be collective, so the order is the same on every rank.
    const at::Tensor old = whole(write, now);
    const at::Tensor& from = full_of(value);
    const at::Tensor condition = condition_of(effect, false);
    renewed = shard(write, renew(write, old, from, condition, false));
  } else if (write.path == WritePath::kFilled) {
    const at::Tensor& from = full_of(value);
    const at::Tensor condition = condition_of(effect, true);
    renewed = fill(write, now, from, condition);
  } else {
    const at::Tensor& from = write.ref.is_sharded() ? value.local : full_of(value);
    const at::Tensor condition = condition_of(effect, write.ref.is_sharded());
    renewed = renew(write, now, from, condition, true);
  }
  count(write, now);
  if (program_.is_preview && is_counted()) sum_change(write, now, renewed);
  return renewed;
}

void Run::count(std::size_t effect, std::int64_t positions) {
  program_.counts.positions += positions;
  program_.counts.places[program_.place_of(effect, layer_index_)] += positions;
}

// A mask of the numbers of the logical tensor that the write changed.
at::Tensor Run::touched_by(const Write& write, const at::Tensor& condition) const {
  const auto options = at::device(env_.context.device).dtype(at::kBool);
  if (!condition.defined()) {
    const at::Tensor region =
        write.region.defined() ? write.region : at::ones(write.ref.shape, options);
    return region.logical_and(selection(write, false));
  }
  return renew(write, at::zeros(write.ref.shape, options), at::ones({}, options), condition, false);
}

// A condition that was computed on shards is not gathered only for the count.
void Run::count(const Write& write, const at::Tensor& now) {
  if (!is_counted()) return;
  const graph::Effect& effect = program_.program.effects[write.effect];
  if (write.ref.is_weight || !(effect.condition || selected_.defined()))
    return count(write.effect, write.positions);
  const at::NoGradGuard no_grad;
  const Slot* condition = effect.condition ? &values_[*effect.condition] : nullptr;
  if (condition == nullptr || condition->full.defined() || condition->placement->dim < 2) {
    const at::Tensor touched = touched_by(write, condition_of(effect, false));
    return count(write.effect, positions_of(touched, write.ref).sum().item<std::int64_t>());
  }
  at::Tensor touched = condition->local.expand(now.sizes());
  if (selected_.defined()) touched = touched.logical_and(selection(write, true));
  program_.counts.touched.push_back(
      {program_.place_of(write.effect, layer_index_), positions_of(touched, write.ref).cpu()});
}

void Run::sum_change(const Write& write, const at::Tensor& before, const at::Tensor& after) {
  const at::NoGradGuard no_grad;
  const at::Tensor old = whole(write, before.detach()).to(at::kDouble);
  const at::Tensor difference = whole(write, after.detach()).to(at::kDouble) - old;
  Change& change = program_.changes[program_.place_of(write.effect, layer_index_)];
  change.before += old.square().sum().item<double>();
  change.change += difference.square().sum().item<double>();
}

void Run::save(std::size_t index) {
  if (env_.is_repeat || env_.is_preview) return;
  const graph::Effect& effect = program_.program.effects[index];
  if (!has_values(effect)) return;
  Slot& slot = values_[effect.value];
  if (effect.condition && !full_of(values_[*effect.condition]).all().item<bool>()) return;
  const at::Tensor value = full_of(slot).detach();
  act();
  const int layer = program_.says_layer[index] ? layer_.layer : 0;
  if (program_.read_back.contains(effect.name)) {
    const bool is_view = value.storage().nbytes() != value.nbytes();
    const bool may_change = layer_.values[effect.value].may_change;
    pass_.saves[saved_name(effect.name, layer)] = is_view || may_change ? value.clone() : value;
  }
  // Of an evaluation only the first batch is sent, because it is the batch that traces capture. No
  // trace captures a generation.
  const bool is_traced = env_.scope.batch == 0 && env_.scope.phase != trace::Phase::kGeneration;
  if (!effect.sends || env_.saved == nullptr || !is_traced) return;
  env_.saved->numbers += static_cast<std::size_t>(value.numel());
  if (env_.saved->numbers > kMaxSentOfStep) return fail();
  const at::Tensor numbers = value.to(at::kCPU, at::kDouble).contiguous();
  const auto* first = numbers.const_data_ptr<double>();
  const trace::ForwardScope& scope = env_.scope;
  env_.saved->notifications.push_back(
      {{"step", scope.step},
       {"micro_batch", scope.micro_batch},
       {"phase", scope.phase == trace::Phase::kTrain ? "train" : "eval"},
       {"prompt_set", scope.prompt_set},
       {"first_row", scope.first_row},
       {"program", program_.name},
       {"name", effect.name},
       {"layer", layer},
       {"shape", value.sizes().vec()},
       {"values", std::vector(first, first + numbers.numel())}});
}

bool Run::skips(std::size_t index) {
  const graph::Effect& effect = program_.program.effects[index];
  if (must_wait(effect)) wait();
  at::Tensor decision = at::ones({1}, at::device(at::kCPU).dtype(at::kByte));
  if (effect.condition) {
    Slot& slot = values_[*effect.condition];
    decision.fill_(slot.is_defined() && full_of(slot).all().item<bool>() ? 1 : 0);
    env_.tensor->broadcast(decision, 0);
  }
  if (decision.item<std::uint8_t>() == 0) return false;
  act();
  if (is_counted()) count(index, layer_.shape.batch * layer_.shape.sequence);
  return true;
}

}  // namespace tt::intervene
