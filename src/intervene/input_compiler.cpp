#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "src/intervene/layer_draft.h"

namespace tt::intervene {
namespace {

using graph::Leaf;
using graph::LeafKind;

void wait_until(CompiledValue& compiled, std::int64_t moment, std::size_t key) {
  if (moment <= compiled.moment) return;
  compiled.moment = moment;
  compiled.key = key;
}

base::Result<InputInfo> input_of_place(LayerDraft& draft, const Leaf& leaf, std::size_t value) {
  Getter getter{draft.ref_of(leaf.place), std::nullopt, value, 0, 0};
  InputInfo input;
  input.shape = getter.ref.shape;
  input.dtype = getter.ref.dtype;
  input.has_gradient = at::isFloatingType(input.dtype);
  if (leaf.place.heads != expr::kNoNode) {
    getter.heads = read_indices(draft.program.ast(), leaf.place.heads, 2);
    auto part = draft.select(by_heads(meta_tensor(input.shape, input.dtype), getter.ref.head_size),
                             *getter.heads, leaf.place.heads);
    if (!part) return part.error();
    input.shape = part.value().sizes().vec();
    input.is_part = true;
  }
  CompiledValue& compiled = draft.layer.values[value];
  compiled.is_plain = false;
  compiled.meets_shards = compiled.meets_shards || getter.ref.may_be_sharded;
  compiled.may_change = compiled.may_change || getter.ref.is_weight || getter.ref.gradient;
  getter.moment = draft.moment_of(leaf.place, getter.ref);
  getter.key = draft.key_of(getter.ref);
  wait_until(compiled, getter.moment, getter.key);
  input.source.index = draft.layer.getters.size();
  draft.layer.getters.push_back(std::move(getter));
  return input;
}

InputInfo input_of_value(LayerDraft& draft, const Leaf& leaf, std::size_t value) {
  CompiledValue& compiled = draft.layer.values[value];
  const CompiledValue& used = draft.layer.values[leaf.value];
  InputInfo input;
  input.source.kind = Source::Kind::kValue;
  input.source.index = leaf.value;
  input.shape = used.shape;
  input.dtype = used.dtype;
  input.is_number = used.is_number;
  input.has_gradient = !used.is_plain && at::isFloatingType(used.dtype);
  compiled.is_plain = compiled.is_plain && used.is_plain;
  compiled.meets_shards = compiled.meets_shards || used.meets_shards;
  compiled.may_change = compiled.may_change || used.may_change;
  wait_until(compiled, used.moment, used.key);
  compiled.saved.insert(compiled.saved.end(), used.saved.begin(), used.saved.end());
  return input;
}

base::Result<InputInfo> input_of_noise(LayerDraft& draft, const Leaf& leaf) {
  NoiseSource noise{{leaf.key == "uniform", leaf.seed}, draft.ref_of(leaf.place)};
  if (!noise.ref.is_weight && noise.ref.shape.size() != 3) {
    return draft.error(leaf.node, "there is no noise of this place's shape",
                       "name a place of [batch, sequence, features], or a weight");
  }
  InputInfo input;
  input.shape = noise.ref.shape;
  input.dtype = noise.ref.dtype;
  input.source.kind = Source::Kind::kNoise;
  input.source.index = draft.layer.noises.size();
  draft.layer.noises.push_back(std::move(noise));
  return input;
}

InputInfo input_of_parameter(const LayerDraft& draft, const Leaf& leaf) {
  const auto parameter =
      std::ranges::find(draft.program.parameters, leaf.name, &graph::Parameter::name);
  InputInfo input;
  input.source.kind = Source::Kind::kParameter;
  input.source.index = static_cast<std::size_t>(parameter - draft.program.parameters.begin());
  input.dtype = at::kDouble;
  input.is_number = true;
  return input;
}

base::Result<InputInfo> input_of_vector(LayerDraft& draft, const Leaf& leaf) {
  // Ranks without files received the contents with the program.
  if (draft.context.vectors == nullptr && !draft.contents.vectors.contains(leaf.name)) {
    return draft.error(leaf.node, "this run has no vectors",
                       "start it with --tensor-tracer-vectors");
  }
  std::shared_ptr<const trace::DirectionVector>& vector = draft.contents.vectors[leaf.name];
  if (vector == nullptr) {
    auto read = draft.context.vectors->find(leaf.name);
    if (!read) return draft.error(leaf.node, read.error().message, read.error().remedy);
    vector = std::move(read).value();
  }
  const int row = leaf.row.at(draft.layer.layer);
  if (row == 0 && !vector->has_embedding_row) {
    return draft.error(leaf.node, "the file of \"" + leaf.name + "\" has no row of the embedding",
                       "its rows count from 1");
  }
  const std::int64_t size = vector->hidden_size;
  at::Tensor numbers = at::empty({size}, at::device(at::kCPU).dtype(at::kFloat));
  std::copy_n(vector->row(row), size, numbers.mutable_data_ptr<float>());
  InputInfo input;
  input.source.kind = Source::Kind::kConstant;
  input.source.constant = numbers.to(draft.context.dtype);
  input.shape = {size};
  input.dtype = draft.context.dtype;
  return input;
}

base::Result<InputInfo> input_of_file(LayerDraft& draft, const Leaf& leaf) {
  if (draft.context.files == nullptr && !draft.contents.tensors.contains({leaf.name, leaf.key}))
    return draft.error(leaf.node, "this run has no files",
                       "give it a folder of files: --intervention-files, or files= of attach()");
  at::Tensor& tensor = draft.contents.tensors[{leaf.name, leaf.key}];
  if (!tensor.defined()) {
    const auto read = draft.context.files->find(leaf.name, leaf.key);
    if (!read) return draft.error(leaf.node, read.error().message, read.error().remedy);
    tensor = read.value().to(draft.context.dtype).contiguous();
  }
  InputInfo input;
  input.source.kind = Source::Kind::kConstant;
  input.source.constant = tensor;
  input.shape = tensor.sizes().vec();
  input.dtype = draft.context.dtype;
  return input;
}

// The input of saved(). It has the shape of the saved value, which an earlier line defines.
base::Result<InputInfo> input_of_saved(const LayerDraft& draft, const Leaf& leaf) {
  const auto effect = std::ranges::find_if(draft.program.effects, [&](const graph::Effect& one) {
    return one.kind == graph::EffectKind::kSave && one.name == leaf.name;
  });
  const bool is_known =
      effect != draft.program.effects.end() && draft.layer.values[effect->value].program;
  if (!is_known) {
    return draft.error(leaf.node, "no line above this one saves \"" + leaf.name + "\"",
                       "put save(…, \"" + leaf.name + "\") above");
  }
  InputInfo input;
  input.source.kind = Source::Kind::kSaved;
  input.source.name = leaf.name;
  input.shape = draft.layer.values[effect->value].shape;
  input.dtype = draft.layer.values[effect->value].dtype;
  return input;
}

}  // namespace

base::Result<InputInfo> compile_input(LayerDraft& draft, const Leaf& leaf, std::size_t value) {
  CompiledValue& compiled = draft.layer.values[value];
  switch (leaf.kind) {
    case LeafKind::kPlace:
      return input_of_place(draft, leaf, value);
    case LeafKind::kBinding:
      return input_of_value(draft, leaf, value);
    case LeafKind::kNoise:
      compiled.is_plain = false;
      return input_of_noise(draft, leaf);
    case LeafKind::kVector:
      return input_of_vector(draft, leaf);
    case LeafKind::kFile:
      return input_of_file(draft, leaf);
    case LeafKind::kSaved:
      compiled.is_plain = false;
      compiled.saved.push_back(leaf.name);
      return input_of_saved(draft, leaf);
    default:
      return input_of_parameter(draft, leaf);
  }
}

}  // namespace tt::intervene
