#include <c10/util/accumulate.h>

#include <algorithm>
#include <utility>

#include "src/intervene/layer_draft.h"
#include "tensor_tracer/intervene/engine.h"

namespace tt::intervene {
namespace {

const points::Place* find_row(const LayerDraft& draft, const char* name) {
  const points::PlaceTable& places = draft.context.places();
  const auto row = places.find(name);
  return row ? &places.rows()[*row] : nullptr;
}

// The argument's last dim must be the input of the final norm, which is that of the output layer.
base::Status check_argument(const LayerDraft& draft, const graph::Value& value,
                            const InputInfo& argument, std::int64_t hidden_size) {
  const bool fits = !argument.is_number && at::isFloatingType(argument.dtype) &&
                    !argument.shape.empty() && argument.shape.back() == hidden_size;
  if (fits) return {};
  return draft.error(value.root,
                     value.module + " takes a value whose last dim is the hidden size " +
                         std::to_string(hidden_size) + ", this one has the shape " +
                         eval::describe_shape(argument.shape),
                     "give it a value of the residual stream, such as layers[12].output");
}

base::Status check_size(const LayerDraft& draft, const graph::Value& value,
                        const CompiledValue& compiled) {
  const std::int64_t numbers = c10::multiply_integers(compiled.shape);
  if (numbers <= draft.limits.max_result_elements && compiled.cost <= draft.limits.max_cost)
    return {};
  return draft.error(
      value.root,
      value.module + " of this value gives " + std::to_string(numbers) + " numbers for " +
          std::to_string(static_cast<std::int64_t>(compiled.cost)) +
          " multiply-adds; the limits are " + std::to_string(draft.limits.max_result_elements) +
          " and " + std::to_string(static_cast<std::int64_t>(draft.limits.max_cost)),
      "give it fewer tokens, such as layers[12].output[:, -1:]");
}

}  // namespace

base::Status compile_module(LayerDraft& draft, std::size_t index) {
  const graph::Value& value = draft.program.values[index];
  const points::Place* norm = find_row(draft, "final_norm.output");
  const points::Place* scores = find_row(draft, "logits");
  if (norm == nullptr || scores == nullptr)
    return draft.error(value.root, "this model has no " + value.module, "take the call away");
  if (value.module == "output_layer" && scores->contexts.is_sharded())
    return draft.error(
        value.root, "with context parallelism, tensor-parallel ranks must not share the vocabulary",
        "gather the logits in the model, or take the call away");
  auto argument = compile_input(draft, value.leaves.front(), index);
  if (!argument) return argument.error();
  if (auto status = check_argument(draft, value, argument.value(), norm->features); !status)
    return status;
  CompiledValue& compiled = draft.layer.values[index];
  compiled.sources = {argument.value().source};
  compiled.shape = argument.value().shape;
  compiled.dtype = draft.context.dtype;
  compiled.is_plain = false;
  compiled.may_change = true;
  compiled.module = Module::kFinalNorm;
  compiled.cost = 5.0 * static_cast<double>(c10::multiply_integers(compiled.shape));
  if (value.module == "output_layer") {
    compiled.module = Module::kOutputLayer;
    compiled.cost = static_cast<double>(c10::multiply_integers(compiled.shape)) *
                    static_cast<double>(scores->features);
    compiled.shape.back() = scores->features;
    if (scores->placement.is_sharded() && scores->placement.dim == 2) {
      compiled.meets_shards = true;
      compiled.is_local = draft.context.tensor_ranks > 1;
      compiled.placement = scores->placement;
      compiled.placement.dim = static_cast<int>(compiled.shape.size()) - 1;
    }
  }
  compiled.held.bytes = c10::multiply_integers(compiled.shape) *
                        static_cast<std::int64_t>(c10::elementSize(compiled.dtype));
  compiled.live_bytes = compiled.held.bytes;
  return check_size(draft, value, compiled);
}

}  // namespace tt::intervene
