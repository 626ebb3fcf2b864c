#include "src/trace/active_plan.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "src/trace/captured.h"

namespace tt::trace {

ActivePlan::ActivePlan(std::shared_ptr<const Plan> plan, const PlanContext& context,
                       TraceSink* sink)
    : plan_(std::move(plan)),
      context_(context),
      sink_(sink),
      entries_of_row_(context.places == nullptr ? 0 : context.places->rows().size()),
      packings_(plan_->entries.size()),
      switched_off_(plan_->entries.size(), false) {
  for (std::size_t i = 0; i < plan_->entries.size(); ++i) {
    entries_of_row_[plan_->entries[i].point].push_back(i);
    if (i < 64 && plan_->entries[i].compressor->kept.units > 0) keeping_ |= std::uint64_t{1} << i;
  }
}

const points::Place& ActivePlan::place_of(const PlanEntry& entry) const {
  return context_.places->rows()[entry.point];
}

bool ActivePlan::takes(const ForwardScope& scope, std::uint64_t wanted) const {
  if (wanted == 0) return false;
  for (std::size_t i = 0; i < plan_->entries.size(); ++i)
    if (Demand::has(wanted, i) && plan_->entries[i].takes(scope)) return true;
  return false;
}

bool ActivePlan::takes(std::size_t entry, int layer, const ForwardScope& scope) const {
  const PlanEntry& one = plan_->entries[entry];
  return one.takes_layer[static_cast<std::size_t>(layer)] && one.takes(scope);
}

const ActivePlan::CachedPacking& ActivePlan::packing_for(std::size_t entry,
                                                         const at::Tensor& local) {
  CachedPacking& cached = packings_[entry];
  const bool is_double = local.scalar_type() == at::kDouble;
  if (std::ranges::equal(cached.sizes, local.sizes()) && cached.is_double == is_double)
    return cached;
  const PlanEntry& one = plan_->entries[entry];
  cached = {local.sizes().vec(), is_double, nullptr, nullptr};
  const auto logical = logical_shape(one, place_of(one), local.sizes(), context_.tensor_ranks);
  if (logical) {
    cached.logical = std::make_shared<const LogicalShape>(*logical);
    cached.packing = one.compressor->packing(*logical, is_double);
  }
  return cached;
}

std::optional<Slot> ActivePlan::slot_for(std::size_t entry, int layer, const at::Tensor& local,
                                         const PassText& text) {
  const PlanEntry& one = plan_->entries[entry];
  Slot slot{.entry = entry, .layer = layer};
  if (place_of(one).holds_integers()) {
    const at::Tensor integers = local_integers(one, local);
    if (integers.numel() == 0) return std::nullopt;
    const bool is_empty = one.compressor->code == protocol::RecordCompressor::kEmpty;
    slot.shape = integers.sizes().vec();
    if (is_empty) slot.shape.back() = 0;
    slot.leader_bytes = is_empty ? 0 : integers.nbytes();
    return slot;
  }
  const CachedPacking& cached = packing_for(entry, local);
  if (cached.packing == nullptr) return std::nullopt;
  slot.packing = cached.packing;
  slot.logical = cached.logical;
  slot.shape = slot.packing->shape();
  slot.is_double = cached.is_double;
  if (one.compressor->needs_targets && text.targets.defined())
    slot.targets = captured_targets(one, text.targets);
  if (one.compressor->kept.units > 0) slot.tokens = text.tokens;
  return slot;
}

void ActivePlan::pack(const Slot& slot, std::size_t rank, const at::Tensor& local,
                      std::byte* part) const {
  const PlanEntry& entry = plan_->entries[slot.entry];
  if (slot.packing == nullptr) {
    copy_integers(local_integers(entry, local), part);
    return;
  }
  slot.packing->pack({place_of(entry).hidden_state.value_or(slot.layer), slot.targets}, rank,
                     local_numbers(entry, *slot.logical, local),
                     {part, slot.packing->part_bytes(rank)});
}

void ActivePlan::switch_off(std::size_t entry, const std::string& why) noexcept {
  if (switched_off_[entry]) return;
  switched_off_[entry] = true;
  newly_off_.push_back(entry);
  if (sink_ == nullptr) return;
  const std::string& name = place_of(plan_->entries[entry]).name;
  sink_->send_event("log", {{"level", "warning"},
                            {"message", "plan entry " + std::to_string(entry) + " (" + name +
                                            ") was switched off: " + why}});
}

std::vector<std::size_t> ActivePlan::take_switched_off() { return std::exchange(newly_off_, {}); }

}  // namespace tt::trace
