#include <ATen/ATen.h>

#include <utility>

#include "src/intervene/budget.h"
#include "src/intervene/layer_draft.h"
#include "tensor_tracer/comm/shards.h"
#include "tensor_tracer/expr/diagnostic.h"

namespace tt::intervene {
namespace {

using expr::Kind;

// The value of an integer node, with or without a sign.
std::int64_t integer_of(const expr::Ast& ast, expr::NodeId id) {
  const expr::Node& node = ast.node(id);
  if (node.kind != Kind::kUnary) return node.integer;
  const std::int64_t value = ast.node(node.children[0]).integer;
  return node.op == expr::Operator::kNegative ? -value : value;
}

std::optional<c10::SymInt> bound_of(const expr::Ast& ast, expr::NodeId id) {
  if (id == expr::kNoNode || ast.node(id).kind == Kind::kNone) return std::nullopt;
  return c10::SymInt(integer_of(ast, id));
}

at::indexing::TensorIndex index_of(const expr::Ast& ast, expr::NodeId id) {
  const expr::Node& node = ast.node(id);
  if (node.kind == Kind::kEllipsis) return at::indexing::Ellipsis;
  if (node.kind == Kind::kSlice) {
    return at::indexing::Slice(bound_of(ast, node.children[0]), bound_of(ast, node.children[1]),
                               bound_of(ast, node.children[2]));
  }
  if (node.kind != Kind::kList) return integer_of(ast, id);
  std::vector<std::int64_t> positions;
  for (const expr::NodeId item : node.children) positions.push_back(integer_of(ast, item));
  return at::tensor(positions, at::device(at::kCPU).dtype(at::kLong));
}

// A value may be a view of an input. Then the value keeps the input's memory alive.
void add_held_input(const LayerDraft& draft, CompiledValue& compiled,
                    const std::vector<InputInfo>& inputs) {
  if (!compiled.held.input) return;
  const Source& source = inputs[*compiled.held.input].source;
  if (source.kind == Source::Kind::kValue)
    compiled.held.bytes += draft.layer.values[source.index].held.bytes;
  if (source.kind == Source::Kind::kGetter)
    compiled.held.bytes += bytes_of(draft.layer.getters[source.index].ref);
}

base::Status check_gradient(const LayerDraft& draft, std::size_t index,
                            const std::vector<InputInfo>& inputs) {
  std::vector<bool> has_gradient;
  for (const InputInfo& input : inputs) has_gradient.push_back(input.has_gradient);
  const auto stop = draft.layer.values[index].program->find_gradient_stop(has_gradient);
  if (!stop) return {};
  return expr::to_error(draft.program.ast(),
                        {*stop, "no gradient flows through this operator",
                         "write floor(a / b) for a // b, and a - b * floor(a / b) for a % b"});
}

// The placement that all sharded inputs share; null if they differ or no input is sharded.
const mesh::Placement* common_placement(const std::vector<const mesh::Placement*>& all) {
  const mesh::Placement* common = nullptr;
  for (const mesh::Placement* one : all) {
    if (one == nullptr) continue;
    if (common != nullptr && *common != *one) return nullptr;
    common = one;
  }
  return common;
}

// Replaces `input` by the part that a computation on shards uses. False: the value needs logical
// tensors.
bool fit_to_shards(const Context& context, InputInfo& input, const mesh::Placement& placement,
                   std::size_t rank_of_result) {
  if (input.placement != nullptr) {
    if (input.shape.size() != rank_of_result) return false;
    input.shape =
        comm::shard_shape(placement, input.shape, context.tensor_rank, context.tensor_ranks);
    return true;
  }
  // Each shard would give a part of the gradient of a replicated input. The ranks would have to sum
  // these parts.
  if (input.has_gradient) return false;
  const auto from_right = static_cast<std::int64_t>(rank_of_result) - placement.dim;
  const auto dim = static_cast<std::int64_t>(input.shape.size()) - from_right;
  if (dim < 0 || input.shape[static_cast<std::size_t>(dim)] == 1) return true;
  if (input.source.kind != Source::Kind::kConstant) return false;
  if (input.shape[static_cast<std::size_t>(dim)] != placement.full_size()) return false;
  mesh::Placement along = placement;
  along.dim = static_cast<int>(dim);
  input.source.constant =
      comm::take_shard(input.source.constant, along, context.tensor_rank, context.tensor_ranks);
  input.shape = input.source.constant.sizes().vec();
  return true;
}

// Makes the value run on shards if all its inputs allow this.
base::Status use_shards(LayerDraft& draft, std::size_t index, std::vector<InputInfo> inputs,
                        const eval::Substitutions& known) {
  CompiledValue& compiled = draft.layer.values[index];
  std::vector<const mesh::Placement*> placements;
  for (InputInfo& input : inputs) {
    const std::size_t at = input.source.index;
    if (input.source.kind == Source::Kind::kGetter && draft.layer.getters[at].ref.is_sharded()) {
      if (input.is_part || draft.layer.getters[at].ref.has_partial_sums()) return {};
      input.placement = &draft.layer.getters[at].ref.placement;
    } else if (input.source.kind == Source::Kind::kNoise &&
               draft.layer.noises[at].ref.is_sharded()) {
      input.placement = &draft.layer.noises[at].ref.placement;
    } else if (input.source.kind == Source::Kind::kValue && draft.layer.values[at].is_local) {
      input.placement = &draft.layer.values[at].placement;
    }
    placements.push_back(input.placement);
  }
  const mesh::Placement* common = common_placement(placements);
  if (common == nullptr) return {};
  std::vector<eval::Input> types;
  for (InputInfo& input : inputs) {
    if (!fit_to_shards(draft.context, input, *common, compiled.shape.size())) return {};
    types.push_back({"", input.shape, input.dtype, input.is_number});
  }
  auto program = eval::Program::check(draft.program.ast(), draft.program.values[index].root,
                                      std::move(types), known, draft.limits);
  if (!program) return program.error();
  compiled.program = std::move(program).value();
  for (std::size_t i = 0; i < inputs.size(); ++i) compiled.sources[i] = inputs[i].source;
  compiled.is_local = true;
  compiled.placement = *common;
  return {};
}

base::Status compile_value(LayerDraft& draft, std::size_t index) {
  const graph::Value& value = draft.program.values[index];
  std::vector<InputInfo> inputs;
  std::vector<eval::Input> types;
  eval::Substitutions known;
  for (const graph::Leaf& leaf : value.leaves) {
    if (leaf.kind == graph::LeafKind::kLayer) {
      known[leaf.node] = std::int64_t{draft.layer.layer};
      continue;
    }
    auto input = compile_input(draft, leaf, index);
    if (!input) return input.error();
    known[leaf.node] = types.size();
    types.push_back({"", input.value().shape, input.value().dtype, input.value().is_number});
    inputs.push_back(std::move(input).value());
  }
  auto program =
      eval::Program::check(draft.program.ast(), value.root, std::move(types), known, draft.limits);
  if (!program) return program.error();
  CompiledValue& compiled = draft.layer.values[index];
  static_cast<eval::ProgramFacts&>(compiled) = program.value().facts();
  compiled.program = std::move(program).value();
  for (const InputInfo& input : inputs) compiled.sources.push_back(input.source);
  add_held_input(draft, compiled, inputs);
  if (auto status = check_gradient(draft, index, inputs); !status) return status;
  if (!compiled.is_exact || draft.context.tensor_ranks == 1) return {};
  return use_shards(draft, index, std::move(inputs), known);
}

base::Result<LayerSpecialization> compile(LayerDraft& draft) {
  draft.layer.values.resize(draft.program.values.size());
  for (std::size_t i = 0; i < draft.program.values.size(); ++i) {
    const bool is_module = !draft.program.values[i].module.empty();
    auto status = is_module ? compile_module(draft, i) : compile_value(draft, i);
    if (!status) return status.error();
  }
  for (std::size_t i = 0; i < draft.program.effects.size(); ++i)
    if (auto status = compile_effect(draft, i); !status) return status.error();
  for (CompiledValue& compiled : draft.layer.values) {
    if (!compiled.program) continue;
    std::vector<at::Tensor> known;
    for (const Source& source : compiled.sources) known.push_back(source.constant);
    compiled.program = compiled.program->fold(known);
    for (Source& source : compiled.sources)
      if (source.constant.defined()) source.constant = source.constant.to(draft.context.device);
  }
  for (Write& write : draft.layer.writes)
    if (write.region.defined()) write.region = write.region.to(draft.context.device);
  return std::move(draft.layer);
}

}  // namespace

Indices read_indices(const expr::Ast& ast, expr::NodeId subscript, std::size_t whole_dims) {
  Indices indices(whole_dims, at::indexing::Slice());
  const expr::Node& node = ast.node(subscript);
  if (node.kind != Kind::kTuple) {
    indices.push_back(index_of(ast, subscript));
    return indices;
  }
  for (const expr::NodeId item : node.children) indices.push_back(index_of(ast, item));
  return indices;
}

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
    LayerDraft draft{program, context, contents, limits_of(program, context, shape, layer)};
    draft.layer.layer = layer;
    draft.layer.shape = shape;
    return compile(draft);
  } catch (const std::exception& error) {
    const std::string what = error.what();
    return expr::to_error(program.ast(), {{}, what.substr(0, what.find('\n')), ""});
  }
}

}  // namespace tt::intervene
