#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/mesh/mesh.h"
#include "tensor_tracer/trace/device_runtime.h"
#include "tensor_tracer/trace/pass.h"
#include "tensor_tracer/trace/plan.h"
#include "tensor_tracer/trace/trace_sink.h"

namespace tt::trace {

/// Identifies this rank and its run in every record.
struct TracerIdentity {
  std::uint64_t run = 0;
  mesh::Coordinates coordinates;
};

/// CPU seconds in a tracer, and the parts of them spent in gathers and in making records.
struct TracerSeconds {
  double all = 0.0;
  double gather = 0.0;
  double encode = 0.0;
};

struct TracerCore;

/// Captures the trace points of the plan during a forward pass and its backward pass. Each rank
/// reduces its shard. One gather per direction over the tensor axis collects the results. The
/// leader (tensor rank 0 of data replica 0) makes the records and passes them to its sink. Ranks of
/// other replicas capture nothing. Thread: the thread that runs the step.
class Tracer {
 public:
  /// `group`: a separate communicator along the tensor axis. `sink` may be null on ranks that are
  /// not a leader; it outlives the tracer and its passes. `runtime`: of the device that has the
  /// tensors; null: the CPU. `group` must support the device.
  Tracer(PlanContext context, const TracerIdentity& identity, const comm::ProcessGroup& group,
         TraceSink* sink, std::shared_ptr<DeviceRuntime> runtime = nullptr);
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  /// Sets the plan of the passes that begin after this call. REQUIRES: the same plan on all ranks,
  /// between the same passes.
  void set_plan(std::shared_ptr<const Plan> plan);
  const Plan& plan() const;
  /// The facts that plans are checked against.
  const PlanContext& context() const;

  /// True if a pass of this scope would capture the place on this rank.
  bool wants(const points::PlaceKey& place, const ForwardScope& scope) const;
  /// True if wants() is true on the ranks of the leader's data replica. The same on every rank.
  bool is_due(const points::PlaceKey& place, const ForwardScope& scope) const;
  /// True if begin() would capture something.
  bool takes(const ForwardScope& scope) const;
  /// Opens a pass. If no entry takes this pass, it captures nothing and allocates nothing.
  Pass begin(const ForwardScope& scope);

  /// With a device, Pass::finish() returns before the device has finished, and the records are sent
  /// later, in the order of the passes. Sends those whose device is ready, and waits if more than
  /// kMaxEnded are open. begin() and Pass::finish() call it.
  void deliver();
  /// Sends the records of all passes that have ended. Waits for the device.
  void deliver_all();
  static constexpr std::size_t kMaxEnded = 8;

  /// Each pass that begins from now on captures only these entries of the plan (bits as in Demand).
  /// It always captures the entries of prompts and the entries that keep a list of tokens.
  /// REQUIRES: the same on all ranks, between the same passes.
  void set_demand(std::uint64_t entries);

  /// Leader: entries of plan() that were switched off since the last call, because they failed or
  /// took too long on some rank. They send nothing, but may still cost time until a plan disables
  /// them.
  std::vector<std::size_t> take_switched_off();

  /// CPU seconds that this thread has spent in the tracer so far.
  TracerSeconds seconds() const;

 private:
  std::shared_ptr<TracerCore> core_;  // shared with the passes
};

}  // namespace tt::trace
