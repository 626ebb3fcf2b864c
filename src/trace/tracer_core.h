#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "src/trace/active_plan.h"
#include "src/trace/forward_buffer.h"
#include "src/trace/record_writer.h"
#include "tensor_tracer/trace/tracer.h"

namespace tt::trace {

/// The memory that a pass writes into. A later pass uses the same memory again.
struct PassMemory {
  explicit PassMemory(const comm::ProcessGroup& group) : values(group), gradients(group) {}
  ForwardBuffer values, gradients;
  std::vector<double> entry_seconds;  // CPU time in this pass, by entry
};

/// The state that all passes of one tracer share.
struct TracerCore {
  TracerCore(PlanContext about, const TracerIdentity& identity, const comm::ProcessGroup& tensor,
             TraceSink* out)
      : context(std::move(about)),
        is_watched(identity.coordinates.data == 0),
        group(tensor),
        sink(out),
        writer(context, identity),
        plan(std::make_shared<ActivePlan>(std::make_shared<Plan>(), context, out)) {}

  /// The entries of the plan whose records of such a pass somebody takes, as in Demand.
  std::uint64_t wanted_in(const ForwardScope& scope) const {
    return is_watched ? wanted_on_leader(scope) : 0;
  }
  std::uint64_t wanted_on_leader(const ForwardScope& scope) const {
    return scope.prompt_set != 0 ? Demand::kAll : demand | plan->keeping_entries();
  }

  const PlanContext context;
  const bool is_watched;  // true on the leader's data replica
  std::uint64_t demand = Demand::kAll;
  const comm::ProcessGroup group;
  TraceSink* const sink;
  RecordWriter writer;
  std::shared_ptr<ActivePlan> plan;  // for the passes that begin from now on
  std::vector<PassMemory> unused;    // of passes that have ended
  TracerSeconds seconds;
};

}  // namespace tt::trace
