#include "src/intervene/compiler.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "src/intervene/budget.h"
#include "tensor_tracer/base/check.h"
#include "tensor_tracer/comm/shards.h"
#include "tensor_tracer/expr/diagnostic.h"

namespace tt::intervene {

at::Tensor meta_tensor(const std::vector<std::int64_t>& shape, at::ScalarType dtype) {
  return at::empty(shape, at::TensorOptions().dtype(dtype).device(at::kMeta));
}

std::string shown_shape(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  }
  return text + "]";
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
    return Compiler(program, context, shape, layer, contents).make();
  } catch (const std::exception& error) {
    const std::string what = error.what();
    return expr::to_error(program.ast(), {{}, what.substr(0, what.find('\n')), ""});
  }
}

Compiler::Compiler(const graph::Program& program, const Context& context, const Shape& shape,
                   int layer, trace::FileContents& contents)
    : program_(program),
      context_(context),
      contents_(contents),
      limits_(limits_of(program, context, shape, layer)) {
  made_.layer = layer;
  made_.shape = shape;
  made_.units.resize(program.values.size());
}

base::Error Compiler::wrong(expr::NodeId node, std::string what, std::string remedy) const {
  return expr::to_error(program_.ast(),
                        {program_.ast().node(node).span, std::move(what), std::move(remedy)});
}

// What the subscript selects, as a tensor without data; lists are looked into.
base::Result<at::Tensor> Compiler::select(const at::Tensor& x, const Indices& indices,
                                          expr::NodeId subscript) const {
  try {
    const at::Tensor data = at::zeros({}, at::kBool).expand(x.sizes());
    return meta_tensor(data.index(indices).sizes().vec(), x.scalar_type());
  } catch (const c10::Error&) {
    return wrong(subscript, "this does not fit the shape " + shown_shape(x.sizes().vec()),
                 "positions count from 0; -1 is the last");
  }
}

base::Result<LayerSpecialization> Compiler::make() {
  for (std::size_t i = 0; i < program_.values.size(); ++i) {
    if (auto status = make_unit(i); !status) return status.error();
  }
  for (std::size_t i = 0; i < program_.effects.size(); ++i) {
    const graph::Effect& effect = program_.effects[i];
    base::Status status;
    if (effect.kind == graph::EffectKind::kWrite) status = add_write(i);
    if (effect.kind == graph::EffectKind::kSave) status = check_save(effect);
    if (effect.kind == graph::EffectKind::kSkip) status = check_skip(effect);
    if (!status) return status.error();
  }
  for (CompiledValue& unit : made_.units) {
    std::vector<at::Tensor> known;
    for (const Source& source : unit.sources) known.push_back(source.constant);
    unit.program = unit.program->fold(known);
  }
  return std::move(made_);
}

base::Status Compiler::make_unit(std::size_t index) {
  const graph::Value& value = program_.values[index];
  std::vector<InputInfo> seen;
  std::vector<eval::Input> inputs;
  eval::Substitutions known;
  for (const graph::Leaf& leaf : value.leaves) {
    if (leaf.kind == graph::LeafKind::kLayer) {
      known[leaf.node] = std::int64_t{made_.layer};
      continue;
    }
    auto one = see(leaf, index);
    if (!one) return one.error();
    known[leaf.node] = inputs.size();
    inputs.push_back({"", one.value().shape, one.value().dtype, one.value().is_number});
    seen.push_back(std::move(one).value());
  }
  auto program =
      eval::Program::check(program_.ast(), value.root, std::move(inputs), known, limits_);
  if (!program) return program.error();
  CompiledValue& unit = made_.units[index];
  unit.shape = program.value().result_shape();
  unit.dtype = program.value().result_dtype();
  unit.is_number = program.value().result_is_number();
  unit.program = std::move(program).value();
  unit.is_exact = unit.program->acts_by_element();
  for (const InputInfo& one : seen) unit.sources.push_back(one.source);
  note_cost(unit, seen);
  if (auto status = check_gradient(index, seen); !status) return status;
  if (!unit.is_exact || context_.tensor_ranks == 1) return {};
  return use_shards(index, std::move(seen), known);
}

// A value may be a view of what it is made of.
void Compiler::note_cost(CompiledValue& unit, const std::vector<InputInfo>& seen) const {
  const eval::Held held = unit.program->held();
  unit.cost = unit.program->cost();
  unit.live_bytes = unit.program->live_bytes();
  unit.held_bytes = held.bytes;
  if (!held.input) return;
  const Source& source = seen[*held.input].source;
  if (source.kind == Source::Kind::kValue) unit.held_bytes += made_.units[source.index].held_bytes;
  if (source.kind == Source::Kind::kGetter) {
    unit.held_bytes += bytes_of(made_.getters[source.index].ref);
  }
}

base::Status Compiler::check_gradient(std::size_t index, const std::vector<InputInfo>& seen) const {
  std::vector<bool> has_gradient;
  for (const InputInfo& one : seen) has_gradient.push_back(one.has_gradient);
  const auto stop = made_.units[index].program->find_gradient_stop(has_gradient);
  if (!stop) return {};
  return expr::to_error(program_.ast(),
                        {*stop, "no gradient flows through this operator",
                         "write floor(a / b) for a // b, and a - b * floor(a / b) for a % b"});
}

// The one placement of all that is cut, or null.
const mesh::Placement* common_placement(const std::vector<const mesh::Placement*>& all) {
  const mesh::Placement* common = nullptr;
  for (const mesh::Placement* one : all) {
    if (one == nullptr) continue;
    if (common != nullptr && mesh::to_string(*common) != mesh::to_string(*one)) return nullptr;
    common = one;
  }
  return common;
}

// Turns the value into one of shards where all it meets allows that.
base::Status Compiler::use_shards(std::size_t index, std::vector<InputInfo> seen,
                                  const eval::Substitutions& known) {
  CompiledValue& unit = made_.units[index];
  std::vector<const mesh::Placement*> placements;
  for (InputInfo& one : seen) {
    const std::size_t at = one.source.index;
    if (one.source.kind == Source::Kind::kGetter && made_.getters[at].ref.is_sharded()) {
      if (one.is_part || made_.getters[at].ref.has_partial_sums()) return {};
      one.placement = &made_.getters[at].ref.placement;
    } else if (one.source.kind == Source::Kind::kNoise && made_.noises[at].ref.is_sharded()) {
      one.placement = &made_.noises[at].ref.placement;
    } else if (one.source.kind == Source::Kind::kValue && made_.units[at].is_local) {
      one.placement = &made_.units[at].placement;
    }
    placements.push_back(one.placement);
  }
  const mesh::Placement* common = common_placement(placements);
  if (common == nullptr) return {};
  std::vector<eval::Input> inputs;
  for (InputInfo& one : seen) {
    if (!fit_to_shards(one, *common, unit.shape.size())) return {};
    inputs.push_back({"", one.shape, one.dtype, one.is_number});
  }
  auto program = eval::Program::check(program_.ast(), program_.values[index].root,
                                      std::move(inputs), known, limits_);
  if (!program) return program.error();
  unit.program = std::move(program).value();
  for (std::size_t i = 0; i < seen.size(); ++i) unit.sources[i] = seen[i].source;
  unit.is_local = true;
  unit.placement = *common;
  return {};
}

// Makes `seen` what a value of shards is given of it; false: it needs logical tensors.
bool Compiler::fit_to_shards(InputInfo& seen, const mesh::Placement& placement,
                             std::size_t rank_of_result) {
  if (seen.placement != nullptr) {
    if (seen.shape.size() != rank_of_result) return false;
    seen.shape =
        comm::shard_shape(placement, seen.shape, context_.tensor_rank, context_.tensor_ranks);
    return true;
  }
  // A shard's part of the gradient of what is whole would have to be summed over ranks.
  if (seen.has_gradient) return false;
  const auto from_right = static_cast<std::int64_t>(rank_of_result) - placement.dim;
  const auto dim = static_cast<std::int64_t>(seen.shape.size()) - from_right;
  if (dim < 0 || seen.shape[static_cast<std::size_t>(dim)] == 1) return true;
  if (seen.source.kind != Source::Kind::kConstant) return false;
  if (seen.shape[static_cast<std::size_t>(dim)] != placement.full_size()) return false;
  mesh::Placement along = placement;
  along.dim = static_cast<int>(dim);
  seen.source.constant =
      comm::take_shard(seen.source.constant, along, context_.tensor_rank, context_.tensor_ranks);
  seen.shape = seen.source.constant.sizes().vec();
  return true;
}

}  // namespace tt::intervene
