#include "tensor_tracer/trace/tracer.h"

#include <algorithm>
#include <utility>

#include "src/trace/tracer_core.h"

namespace tt::trace {

Tracer::Tracer(PlanContext context, const TracerIdentity& identity, const comm::ProcessGroup& group,
               TraceSink* sink, std::shared_ptr<DeviceRuntime> runtime)
    : core_(std::make_shared<TracerCore>(std::move(context), identity, group, sink,
                                         std::move(runtime))) {}

// What a device has not finished is dropped: an ended pass and the core own each other.
Tracer::~Tracer() { core_->ended.clear(); }

void Tracer::deliver() { core_->deliver(kMaxEnded); }
void Tracer::deliver_all() { core_->deliver(0); }

void Tracer::set_plan(std::shared_ptr<const Plan> plan) {
  core_->plan = std::make_shared<ActivePlan>(std::move(plan), core_->context, core_->sink);
}

const Plan& Tracer::plan() const { return core_->plan->plan(); }
const PlanContext& Tracer::context() const { return core_->context; }

bool Tracer::wants(const points::PlaceKey& place, const ForwardScope& scope) const {
  return core_->is_watched && is_due(place, scope);
}

bool Tracer::is_due(const points::PlaceKey& place, const ForwardScope& scope) const {
  const ActivePlan& plan = *core_->plan;
  const std::uint64_t wanted = core_->wanted_on_leader(scope);
  return std::ranges::any_of(plan.entries_of(place.row), [&](std::size_t entry) {
    return Demand::has(wanted, entry) && plan.takes(entry, place.layer, scope);
  });
}

bool Tracer::takes(const ForwardScope& scope) const {
  return core_->plan->takes(scope, core_->wanted_in(scope));
}

Pass Tracer::begin(const ForwardScope& scope) {
  deliver();
  return takes(scope) ? Pass(core_, scope) : Pass();
}

void Tracer::set_demand(std::uint64_t entries) { core_->demand = entries; }

std::vector<std::size_t> Tracer::take_switched_off() { return core_->plan->take_switched_off(); }
TracerSeconds Tracer::seconds() const { return core_->seconds; }

}  // namespace tt::trace
