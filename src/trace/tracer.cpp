#include "tensor_tracer/trace/tracer.h"

#include <utility>

#include "src/trace/tracer_core.h"

namespace tt::trace {

Tracer::Tracer(PlanContext context, const TracerIdentity& identity, const comm::ProcessGroup& group,
               TraceSink* sink)
    : core_(std::make_shared<TracerCore>(std::move(context), identity, group, sink)) {}

Tracer::~Tracer() = default;

void Tracer::set_plan(std::shared_ptr<const Plan> plan) {
  core_->plan = std::make_shared<ActivePlan>(std::move(plan), core_->context, core_->sink);
}

const Plan& Tracer::plan() const { return core_->plan->plan(); }
const PlanContext& Tracer::context() const { return core_->context; }

Pass Tracer::begin(const ForwardScope& scope) {
  const bool is_asked_for = core_->is_wanted || scope.prompt_set != 0;
  if (!core_->is_watched || !is_asked_for || !core_->plan->takes(scope)) return {};
  return Pass(core_, scope);
}

void Tracer::set_wanted(bool is_wanted) { core_->is_wanted = is_wanted; }

std::vector<std::size_t> Tracer::take_switched_off() { return core_->plan->take_switched_off(); }
TracerSeconds Tracer::seconds() const { return core_->seconds; }

}  // namespace tt::trace
