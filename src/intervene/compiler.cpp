#include "src/intervene/compiler.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "src/intervene/budget.h"
#include "src/intervene/effect_compiler.h"
#include "tensor_tracer/base/check.h"
#include "tensor_tracer/comm/shards.h"
#include "tensor_tracer/expr/diagnostic.h"

namespace tt::intervene {

at::Tensor by_heads(const at::Tensor& x, std::int64_t head_size) {
  return x.unflatten(-1, {x.size(-1) / head_size, head_size});
}

std::vector<int> layers_of(const graph::Program& program) {
  return program.uses_each_layer ? program.when.layers : std::vector<int>{0};
}

base::Result<LayerSpecialization> specialize_layer(const graph::Program& program,
                                                   const Context& context, const Shape& shape,
                                                   int layer, trace::FileContents& contents) {
  try {
    return Compiler(program, context, shape, layer, contents).compile();
  } catch (const std::exception& error) {
    const std::string what = error.what();
    return expr::to_error(program.ast(), {{}, what.substr(0, what.find('\n')), ""});
  }
}

Compiler::Compiler(const graph::Program& program, const Context& context, const Shape& shape,
                   int layer, trace::FileContents& contents)
    : draft_{program, context},
      inputs_(draft_, contents),
      limits_(limits_of(program, context, shape, layer)) {
  draft_.layer.layer = layer;
  draft_.layer.shape = shape;
  draft_.layer.units.resize(program.values.size());
}

base::Result<LayerSpecialization> Compiler::compile() {
  for (std::size_t i = 0; i < draft_.program.values.size(); ++i) {
    if (auto status = compile_value(i); !status) return status.error();
  }
  EffectCompiler effects(draft_);
  for (std::size_t i = 0; i < draft_.program.effects.size(); ++i) {
    if (auto status = effects.compile(i); !status) return status.error();
  }
  for (CompiledValue& compiled : draft_.layer.units) {
    std::vector<at::Tensor> known;
    for (const Source& source : compiled.sources) known.push_back(source.constant);
    compiled.program = compiled.program->fold(known);
  }
  return std::move(draft_.layer);
}

base::Status Compiler::compile_value(std::size_t index) {
  const graph::Value& value = draft_.program.values[index];
  std::vector<InputInfo> inputs;
  std::vector<eval::Input> types;
  eval::Substitutions known;
  for (const graph::Leaf& leaf : value.leaves) {
    if (leaf.kind == graph::LeafKind::kLayer) {
      known[leaf.node] = std::int64_t{draft_.layer.layer};
      continue;
    }
    auto input = inputs_.compile(leaf, index);
    if (!input) return input.error();
    known[leaf.node] = types.size();
    types.push_back({"", input.value().shape, input.value().dtype, input.value().is_number});
    inputs.push_back(std::move(input).value());
  }
  auto program =
      eval::Program::check(draft_.program.ast(), value.root, std::move(types), known, limits_);
  if (!program) return program.error();
  CompiledValue& compiled = draft_.layer.units[index];
  compiled.shape = program.value().result_shape();
  compiled.dtype = program.value().result_dtype();
  compiled.is_number = program.value().result_is_number();
  compiled.program = std::move(program).value();
  compiled.is_exact = compiled.program->acts_by_element();
  for (const InputInfo& input : inputs) compiled.sources.push_back(input.source);
  note_cost(compiled, inputs);
  if (auto status = check_gradient(index, inputs); !status) return status;
  if (!compiled.is_exact || draft_.context.tensor_ranks == 1) return {};
  return use_shards(index, std::move(inputs), known);
}

// A value may be a view of an input, whose memory it then keeps alive.
void Compiler::note_cost(CompiledValue& compiled, const std::vector<InputInfo>& inputs) const {
  const eval::Held held = compiled.program->held();
  compiled.cost = compiled.program->cost();
  compiled.live_bytes = compiled.program->live_bytes();
  compiled.held_bytes = held.bytes;
  if (!held.input) return;
  const Source& source = inputs[*held.input].source;
  if (source.kind == Source::Kind::kValue) {
    compiled.held_bytes += draft_.layer.units[source.index].held_bytes;
  }
  if (source.kind == Source::Kind::kGetter) {
    compiled.held_bytes += bytes_of(draft_.layer.getters[source.index].ref);
  }
}

base::Status Compiler::check_gradient(std::size_t index,
                                      const std::vector<InputInfo>& inputs) const {
  std::vector<bool> has_gradient;
  for (const InputInfo& input : inputs) has_gradient.push_back(input.has_gradient);
  const auto stop = draft_.layer.units[index].program->find_gradient_stop(has_gradient);
  if (!stop) return {};
  return expr::to_error(draft_.program.ast(),
                        {*stop, "no gradient flows through this operator",
                         "write floor(a / b) for a // b, and a - b * floor(a / b) for a % b"});
}

// The one placement of all shards, or null.
const mesh::Placement* common_placement(const std::vector<const mesh::Placement*>& all) {
  const mesh::Placement* common = nullptr;
  for (const mesh::Placement* one : all) {
    if (one == nullptr) continue;
    if (common != nullptr && mesh::to_string(*common) != mesh::to_string(*one)) return nullptr;
    common = one;
  }
  return common;
}

// Turns the value into one of shards where all its inputs allow that.
base::Status Compiler::use_shards(std::size_t index, std::vector<InputInfo> inputs,
                                  const eval::Substitutions& known) {
  CompiledValue& compiled = draft_.layer.units[index];
  std::vector<const mesh::Placement*> placements;
  for (InputInfo& input : inputs) {
    const std::size_t at = input.source.index;
    if (input.source.kind == Source::Kind::kGetter && draft_.layer.getters[at].ref.is_sharded()) {
      if (input.is_part || draft_.layer.getters[at].ref.has_partial_sums()) return {};
      input.placement = &draft_.layer.getters[at].ref.placement;
    } else if (input.source.kind == Source::Kind::kNoise &&
               draft_.layer.noises[at].ref.is_sharded()) {
      input.placement = &draft_.layer.noises[at].ref.placement;
    } else if (input.source.kind == Source::Kind::kValue && draft_.layer.units[at].is_local) {
      input.placement = &draft_.layer.units[at].placement;
    }
    placements.push_back(input.placement);
  }
  const mesh::Placement* common = common_placement(placements);
  if (common == nullptr) return {};
  std::vector<eval::Input> types;
  for (InputInfo& input : inputs) {
    if (!fit_to_shards(input, *common, compiled.shape.size())) return {};
    types.push_back({"", input.shape, input.dtype, input.is_number});
  }
  auto program = eval::Program::check(draft_.program.ast(), draft_.program.values[index].root,
                                      std::move(types), known, limits_);
  if (!program) return program.error();
  compiled.program = std::move(program).value();
  for (std::size_t i = 0; i < inputs.size(); ++i) compiled.sources[i] = inputs[i].source;
  compiled.is_local = true;
  compiled.placement = *common;
  return {};
}

// Turns `input` into the part of it that a value of shards takes; false: it needs logical tensors.
bool Compiler::fit_to_shards(InputInfo& input, const mesh::Placement& placement,
                             std::size_t rank_of_result) const {
  if (input.placement != nullptr) {
    if (input.shape.size() != rank_of_result) return false;
    input.shape = comm::shard_shape(placement, input.shape, draft_.context.tensor_rank,
                                    draft_.context.tensor_ranks);
    return true;
  }
  // A shard's part of the gradient of what is whole would have to be summed over ranks.
  if (input.has_gradient) return false;
  const auto from_right = static_cast<std::int64_t>(rank_of_result) - placement.dim;
  const auto dim = static_cast<std::int64_t>(input.shape.size()) - from_right;
  if (dim < 0 || input.shape[static_cast<std::size_t>(dim)] == 1) return true;
  if (input.source.kind != Source::Kind::kConstant) return false;
  if (input.shape[static_cast<std::size_t>(dim)] != placement.full_size()) return false;
  mesh::Placement along = placement;
  along.dim = static_cast<int>(dim);
  input.source.constant = comm::take_shard(input.source.constant, along, draft_.context.tensor_rank,
                                           draft_.context.tensor_ranks);
  input.shape = input.source.constant.sizes().vec();
  return true;
}

}  // namespace tt::intervene
