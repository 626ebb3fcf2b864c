#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <utility>

#include "src/intervene/layer_draft.h"
#include "tensor_tracer/expr/diagnostic.h"
#include "tensor_tracer/intervene/engine.h"

namespace tt::intervene {
namespace {

// Marks the elements that the subscripts select.
void find_region(const LayerDraft& draft, Write& write) {
  write.positions = draft.layer.shape.batch * draft.layer.shape.sequence;
  if (!write.heads && !write.index) return;
  at::Tensor region = at::zeros(write.ref.shape, at::device(at::kCPU).dtype(at::kBool));
  at::Tensor part = write.heads ? by_heads(region, write.ref.head_size) : region;
  if (write.heads && !write.index) {
    part.index_put_(*write.heads, true);
  } else if (!write.heads) {
    part.index_put_(*write.index, true);
  } else {
    at::Tensor inside = at::zeros_like(part.index(*write.heads));
    inside.index_put_(*write.index, true);
    part.index_put_(*write.heads, inside);
  }
  write.region = region;
  if (!write.ref.is_weight)
    write.positions = positions_of(region, write.ref).sum().item<std::int64_t>();
}

base::Status check_fit(const LayerDraft& draft, const graph::Effect& effect,
                       const std::vector<std::int64_t>& target) {
  const auto check = [&](std::size_t value, const char* what) -> base::Status {
    const CompiledValue& compiled = draft.layer.values[value];
    if (at::is_expandable_to(compiled.shape, target)) return {};
    return draft.error(draft.program.values[value].root,
                       std::string(what) + " has shape " + eval::describe_shape(compiled.shape) +
                           ", the place that it writes to has " + eval::describe_shape(target),
                       "the first must broadcast to the second; [..., None] adds a dimension");
  };
  if (auto status = check(effect.value, "the value"); !status) return status;
  if (draft.layer.values[effect.value].dtype == at::kBool) {
    return draft.error(draft.program.values[effect.value].root,
                       "a place is written with numbers, not a mask",
                       "convert it, for example with .float()");
  }
  if (!effect.condition) return {};
  if (draft.layer.values[*effect.condition].dtype != at::kBool) {
    return draft.error(draft.program.values[*effect.condition].root, "a condition is true or false",
                       "compare, for example … > 0");
  }
  return check(*effect.condition, "the condition");
}

// rows, tokens, token_text and positions select a part of a batch, so the effect must have batch
// rows.
base::Status check_where(const LayerDraft& draft, const graph::Effect& effect, bool has_no_rows) {
  const graph::Schedule& when = draft.program.when;
  if (!when.token_text.empty() && draft.context.token_texts == nullptr) {
    return expr::to_error(draft.program.ast(), {effect.span,
                                                "token_text needs the texts of the tokens, which "
                                                "this run does not know",
                                                "call attach() with the model's tokenizer"});
  }
  const bool chooses = !when.rows.empty() || !when.tokens.empty() || !when.token_text.empty() ||
                       when.positions != graph::Positions::kAll;
  if (!chooses || !has_no_rows) return {};
  return expr::to_error(draft.program.ast(),
                        {effect.span,
                         "rows, tokens, token_text and positions choose a part of the text, which "
                         "a weight and a skip do not have",
                         "leave them out of when(…), or put this line into a separate program"});
}

WritePath path_of(const LayerDraft& draft, const graph::Effect& effect, const Write& write) {
  const CompiledValue& value = draft.layer.values[effect.value];
  if (!write.ref.is_sharded()) return WritePath::kShards;
  if (write.ref.has_partial_sums()) return WritePath::kGathered;
  const mesh::Placement& placement = write.ref.placement;
  bool condition_fits = true;
  if (effect.condition) {
    const CompiledValue& condition = draft.layer.values[*effect.condition];
    const auto from_right = static_cast<std::int64_t>(write.ref.shape.size()) - placement.dim;
    const auto dim = static_cast<std::int64_t>(condition.shape.size()) - from_right;
    const bool is_alike = condition.is_local && condition.placement == placement;
    condition_fits = is_alike || (!condition.is_local && !write.index && !write.heads &&
                                  (dim < 0 || condition.shape[static_cast<std::size_t>(dim)] == 1));
  }
  const bool is_one = std::ranges::all_of(value.shape, [](std::int64_t size) { return size == 1; });
  if (!condition_fits) return WritePath::kGathered;
  if (value.is_plain && is_one && !(effect.condition && write.region.defined()))
    return WritePath::kFilled;
  const bool is_alike =
      value.is_local && value.placement == placement && value.shape == write.ref.shape;
  return is_alike && !write.region.defined() ? WritePath::kShards : WritePath::kGathered;
}

base::Status add_write(LayerDraft& draft, std::size_t index) {
  const graph::Effect& effect = draft.program.effects[index];
  Write write;
  write.effect = index;
  write.ref = draft.ref_of(effect.place);
  write.moment = draft.moment_of(effect.place, write.ref);
  write.key = draft.key_of(write.ref);
  at::Tensor part = meta_tensor(write.ref.shape, write.ref.dtype);
  if (effect.place.heads != expr::kNoNode) {
    write.heads = read_indices(draft.program.ast(), effect.place.heads, 2);
    auto heads =
        draft.select(by_heads(part, write.ref.head_size), *write.heads, effect.place.heads);
    if (!heads) return heads.error();
    part = std::move(heads).value();
  }
  if (effect.index != expr::kNoNode) {
    write.index = read_indices(draft.program.ast(), effect.index, 0);
    auto indexed = draft.select(part, *write.index, effect.index);
    if (!indexed) return indexed.error();
    part = std::move(indexed).value();
  }
  if (auto status = check_where(draft, effect, write.ref.is_weight); !status) return status;
  if (auto status = check_fit(draft, effect, part.sizes().vec()); !status) return status;
  find_region(draft, write);
  if (write.region.defined() && write.region.sum().item<std::int64_t>() < part.numel()) {
    return draft.error(effect.index != expr::kNoNode ? effect.index : effect.place.heads,
                       "a position is written twice", "name each one once");
  }
  write.path = path_of(draft, effect, write);
  draft.layer.writes.push_back(std::move(write));
  return {};
}

// A save and a skip happen as a whole or not at all, so their condition must be one bool.
base::Status check_decision(const LayerDraft& draft, const graph::Effect& effect,
                            const std::string& what) {
  if (!effect.condition) return {};
  const CompiledValue& compiled = draft.layer.values[*effect.condition];
  const bool is_one =
      std::ranges::all_of(compiled.shape, [](std::int64_t size) { return size == 1; });
  if (compiled.dtype == at::kBool && is_one) return {};
  return draft.error(
      draft.program.values[*effect.condition].root,
      "the condition of a " + what + " is one truth value, this is " +
          (compiled.dtype == at::kBool ? "a mask of shape " + eval::describe_shape(compiled.shape)
                                       : "no truth value: compare, for example … > 0"),
      "reduce it, for example (…).any()");
}

base::Status check_save(const LayerDraft& draft, const graph::Effect& effect) {
  const CompiledValue& compiled = draft.layer.values[effect.value];
  const std::int64_t numbers = c10::multiply_integers(compiled.shape);
  const std::int64_t limit = effect.sends ? kMaxSentNumbers : kMaxKeptNumbers;
  if (numbers > limit) {
    return draft.error(
        draft.program.values[effect.value].root,
        "this has " + std::to_string(numbers) + " numbers, a save takes " + std::to_string(limit),
        effect.sends ? "reduce it, or keep it only: send=False" : "reduce it");
  }
  return check_decision(draft, effect, "save");
}

base::Status check_skip(const LayerDraft& draft, const graph::Effect& effect) {
  if (auto status = check_where(draft, effect, true); !status) return status;
  return check_decision(draft, effect, "skip");
}

}  // namespace

base::Status compile_effect(LayerDraft& draft, std::size_t index) {
  const graph::Effect& effect = draft.program.effects[index];
  if (effect.kind == graph::EffectKind::kWrite) return add_write(draft, index);
  if (effect.kind == graph::EffectKind::kSave) return check_save(draft, effect);
  if (effect.kind == graph::EffectKind::kSkip) return check_skip(draft, effect);
  return {};
}

}  // namespace tt::intervene
