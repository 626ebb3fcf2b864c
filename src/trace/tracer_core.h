#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
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
  PassMemory(const comm::ProcessGroup& group, DeviceRuntime* runtime)
      : values(group, runtime), gradients(group, runtime) {}
  ForwardBuffer values, gradients;
  std::vector<double> entry_seconds;  // CPU time in this pass, by entry
};

/// A pass that has ended, whose records are still on the way from a device.
class EndedPass {
 public:
  virtual ~EndedPass() = default;
  virtual bool is_ready() const = 0;
  /// Waits for the device, and sends the records.
  virtual void deliver() = 0;
};

/// The state that all passes of one tracer share.
struct TracerCore {
  TracerCore(PlanContext about, const TracerIdentity& identity, const comm::ProcessGroup& tensor,
             TraceSink* out, std::shared_ptr<DeviceRuntime> device)
      : context(std::move(about)),
        is_watched(identity.coordinates.data == 0),
        group(tensor),
        sink(out),
        runtime(std::move(device)),
        writer(context, identity),
        plan(std::make_shared<ActivePlan>(std::make_shared<Plan>(), context, out)) {}

  /// The entries of the plan whose records of such a pass somebody takes, as in Demand.
  std::uint64_t wanted_in(const ForwardScope& scope) const {
    return is_watched ? wanted_on_leader(scope) : 0;
  }
  std::uint64_t wanted_on_leader(const ForwardScope& scope) const {
    return scope.prompt_set != 0 ? Demand::kAll : demand | plan->keeping_entries();
  }

  /// Delivers ended passes, in their order: those whose device is ready, and those beyond the last
  /// `most`.
  void deliver(std::size_t most) {
    while (!ended.empty() && (ended.size() > most || ended.front()->is_ready())) {
      const std::shared_ptr<EndedPass> first = std::move(ended.front());
      ended.pop_front();
      first->deliver();
    }
  }

  const PlanContext context;
  const bool is_watched;  // true on the leader's data replica
  std::uint64_t demand = Demand::kAll;
  const comm::ProcessGroup group;
  TraceSink* const sink;
  const std::shared_ptr<DeviceRuntime> runtime;  // null: the tensors are on the CPU
  RecordWriter writer;
  std::shared_ptr<ActivePlan> plan;              // for the passes that begin from now on
  std::vector<PassMemory> unused;                // of passes that have ended
  std::deque<std::shared_ptr<EndedPass>> ended;  // the oldest first
  TracerSeconds seconds;
};

}  // namespace tt::trace
