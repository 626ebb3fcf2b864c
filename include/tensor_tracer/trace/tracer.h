#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/mesh/mesh.h"
#include "tensor_tracer/trace/pass.h"
#include "tensor_tracer/trace/plan.h"
#include "tensor_tracer/trace/trace_sink.h"

namespace tt::trace {

/// What identifies this rank and its run in every record.
struct TracerIdentity {
  std::uint64_t run = 0;
  mesh::Coordinates coordinates;
};

/// CPU seconds in a tracer, and what of them went to gathers and to making records.
struct TracerSeconds {
  double all = 0.0;
  double gather = 0.0;
  double encode = 0.0;
};

struct TracerCore;

/// Captures what the plan names during a forward pass and its backward pass, reduces it on the
/// shard, gathers it once per direction over the tensor axis, and hands finished records to the
/// sink on the leader (tensor rank 0 of data replica 0). Ranks of other replicas capture nothing.
/// Thread: the thread that runs the step.
class Tracer {
 public:
  /// `group`: a separate communicator along the tensor axis. `sink` may be null on
  /// ranks that are no leader; it outlives the tracer and its passes.
  Tracer(PlanContext context, const TracerIdentity& identity, const comm::ProcessGroup& group,
         TraceSink* sink);
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  /// Of the passes that begin from now on; REQUIRES: the same plan on all ranks, between the same
  /// passes.
  void set_plan(std::shared_ptr<const Plan> plan);
  const Plan& plan() const;
  /// What plans are checked against.
  const PlanContext& context() const;

  /// Opens a pass. One that the plan leaves out captures nothing and allocates nothing.
  Pass begin(const ForwardScope& scope);

  /// Leader: entries of plan() that were switched off since the last call, because they failed or
  /// took too long on some rank. They send nothing; a plan that disables them ends their cost too.
  std::vector<std::size_t> take_switched_off();

  /// CPU seconds that this thread has spent in the tracer so far.
  TracerSeconds seconds() const;

 private:
  std::shared_ptr<TracerCore> core_;  // passes hold it too
};

}  // namespace tt::trace
