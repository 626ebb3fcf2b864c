#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "src/intervene/compiler.h"

namespace tt::intervene {
namespace {

void wait_until(CompiledValue& unit, std::int64_t moment, std::size_t key) {
  if (moment <= unit.moment) return;
  unit.moment = moment;
  unit.key = key;
}

}  // namespace

using graph::Leaf;
using graph::LeafKind;

std::int64_t Compiler::moment_of_place(const graph::Place& place, const PlaceRef& ref) const {
  return context_.places().moment(place.row, ref.place.layer, ref.gradient);
}

std::size_t Compiler::key_of_place(const PlaceRef& ref) const {
  return action_key(ref.place, ref.gradient, context_.places());
}

base::Result<Compiler::InputInfo> Compiler::see(const Leaf& leaf, std::size_t value) {
  CompiledValue& unit = made_.units[value];
  switch (leaf.kind) {
    case LeafKind::kPlace:
      return see_place(leaf, value);
    case LeafKind::kBinding:
      return see_value(leaf, value);
    case LeafKind::kNoise:
      unit.is_plain = false;
      return see_noise(leaf);
    case LeafKind::kVector:
      return see_vector(leaf);
    case LeafKind::kFile:
      return see_file(leaf);
    case LeafKind::kSaved:
      unit.is_plain = false;
      unit.saved.push_back(leaf.name);
      return see_saved(leaf);
    default:
      return see_parameter(leaf);
  }
}

base::Result<Compiler::InputInfo> Compiler::see_place(const Leaf& leaf, std::size_t value) {
  Getter getter{find_place_ref(leaf.place, made_.layer, context_, made_.shape), std::nullopt, value,
                0, 0};
  InputInfo seen;
  seen.shape = getter.ref.shape;
  seen.dtype = getter.ref.dtype;
  seen.has_gradient = at::isFloatingType(seen.dtype);
  if (leaf.place.heads != expr::kNoNode) {
    getter.heads = read_indices(program_.ast(), leaf.place.heads, 2);
    auto part = select(by_heads(meta_tensor(seen.shape, seen.dtype), getter.ref.head_size),
                       *getter.heads, leaf.place.heads);
    if (!part) return part.error();
    seen.shape = part.value().sizes().vec();
    seen.is_part = true;
  }
  CompiledValue& unit = made_.units[value];
  unit.is_plain = false;
  unit.meets_cut = unit.meets_cut || getter.ref.may_be_sharded;
  unit.may_change = unit.may_change || getter.ref.is_weight || getter.ref.gradient;
  getter.moment = moment_of_place(leaf.place, getter.ref);
  getter.key = key_of_place(getter.ref);
  wait_until(unit, getter.moment, getter.key);
  seen.source.index = made_.getters.size();
  made_.getters.push_back(std::move(getter));
  return seen;
}

Compiler::InputInfo Compiler::see_value(const Leaf& leaf, std::size_t value) {
  CompiledValue& unit = made_.units[value];
  const CompiledValue& used = made_.units[leaf.value];
  InputInfo seen;
  seen.source.kind = Source::Kind::kValue;
  seen.source.index = leaf.value;
  seen.shape = used.shape;
  seen.dtype = used.dtype;
  seen.is_number = used.is_number;
  seen.has_gradient = !used.is_plain && at::isFloatingType(used.dtype);
  unit.is_plain = unit.is_plain && used.is_plain;
  unit.meets_cut = unit.meets_cut || used.meets_cut;
  unit.may_change = unit.may_change || used.may_change;
  wait_until(unit, used.moment, used.key);
  unit.saved.insert(unit.saved.end(), used.saved.begin(), used.saved.end());
  return seen;
}

base::Result<Compiler::InputInfo> Compiler::see_noise(const Leaf& leaf) {
  NoiseSource noise{{leaf.key == "uniform", leaf.seed},
                    find_place_ref(leaf.place, made_.layer, context_, made_.shape)};
  if (!noise.ref.is_weight && noise.ref.shape.size() != 3) {
    return wrong(leaf.node, "there is no noise of this place's shape",
                 "name a place of [batch, sequence, features], or a weight");
  }
  InputInfo seen;
  seen.shape = noise.ref.shape;
  seen.dtype = noise.ref.dtype;
  seen.source.kind = Source::Kind::kNoise;
  seen.source.index = made_.noises.size();
  made_.noises.push_back(std::move(noise));
  return seen;
}

Compiler::InputInfo Compiler::see_parameter(const Leaf& leaf) const {
  const auto parameter = std::ranges::find(program_.parameters, leaf.name, &graph::Parameter::name);
  InputInfo seen;
  seen.source.kind = Source::Kind::kParameter;
  seen.source.index = static_cast<std::size_t>(parameter - program_.parameters.begin());
  seen.dtype = at::kDouble;
  seen.is_number = true;
  return seen;
}

base::Result<Compiler::InputInfo> Compiler::see_vector(const Leaf& leaf) const {
  if (context_.vectors == nullptr) {
    return wrong(leaf.node, "this run has no vectors", "start it with --tensor-tracer-vectors");
  }
  std::shared_ptr<const trace::DirectionVector>& vector = contents_.vectors[leaf.name];
  if (vector == nullptr) {
    auto read = context_.vectors->find(leaf.name);
    if (!read) return wrong(leaf.node, read.error().message, read.error().remedy);
    vector = std::move(read).value();
  }
  const int row = leaf.row.at(made_.layer);
  if (row == 0 && !vector->has_embedding_row) {
    return wrong(leaf.node, "the file of \"" + leaf.name + "\" has no row of the embedding",
                 "its rows count from 1");
  }
  const std::int64_t size = vector->hidden_size;
  at::Tensor numbers = at::empty({size}, at::kFloat);
  std::copy_n(vector->row(row), size, numbers.mutable_data_ptr<float>());
  InputInfo seen;
  seen.source.kind = Source::Kind::kConstant;
  seen.source.constant = numbers.to(context_.dtype);
  seen.shape = {size};
  seen.dtype = context_.dtype;
  return seen;
}

base::Result<Compiler::InputInfo> Compiler::see_file(const Leaf& leaf) const {
  if (context_.files == nullptr) {
    return wrong(leaf.node, "this run has no files", "start it with --intervention-files");
  }
  at::Tensor& tensor = contents_.tensors[{leaf.name, leaf.key}];
  if (!tensor.defined()) {
    const auto read = context_.files->find(leaf.name, leaf.key);
    if (!read) return wrong(leaf.node, read.error().message, read.error().remedy);
    tensor = read.value().to(context_.dtype).contiguous();
  }
  InputInfo seen;
  seen.source.kind = Source::Kind::kConstant;
  seen.source.constant = tensor;
  seen.shape = tensor.sizes().vec();
  seen.dtype = context_.dtype;
  return seen;
}

// It has the shape of what is saved, which an earlier line says.
base::Result<Compiler::InputInfo> Compiler::see_saved(const Leaf& leaf) const {
  const auto effect = std::ranges::find_if(program_.effects, [&](const graph::Effect& one) {
    return one.kind == graph::EffectKind::kSave && one.name == leaf.name;
  });
  const bool is_known = effect != program_.effects.end() && made_.units[effect->value].program;
  if (!is_known) {
    return wrong(leaf.node, "no line above this one saves \"" + leaf.name + "\"",
                 "put save(…, \"" + leaf.name + "\") above");
  }
  InputInfo seen;
  seen.source.kind = Source::Kind::kSaved;
  seen.source.name = leaf.name;
  seen.shape = made_.units[effect->value].shape;
  seen.dtype = made_.units[effect->value].dtype;
  return seen;
}

}  // namespace tt::intervene
