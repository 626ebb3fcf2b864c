#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/mesh/mesh.h"
#include "tensor_tracer/points/place_table.h"
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

/// The gradient of a point that is computed only to be watched.
struct DerivedGradient {
  std::vector<std::int64_t> sizes;
  at::ScalarType dtype = at::kFloat;
  at::Tensor from;                                    // of the forward, in the graph
  std::function<at::Tensor(const at::Tensor&)> make;  // of the gradient of `from`
};

/// Captures what the plan names during a forward pass and its backward pass, reduces it on the
/// shard, gathers it once per pass over the tensor axis, and hands finished records to the sink
/// on the leader (tensor rank 0 of data replica 0). Ranks of other replicas capture nothing.
///
///     tracer.set_plan(plan);
///     tracer.begin_forward(scope);
///     … tracer.capture(qkv, tensor) from the model …
///     tracer.end_forward();      // posts the gather, which runs beside the backward pass
///     loss.backward();
///     tracer.end_backward();     // sends the values; posts the gather of the gradients
///     tracer.finish();           // completes what is left and sends it
///
/// Captured values are copies; no autograd node is added and nothing is written in place. Gradients
/// are read by tensor hooks. An exception while capturing switches the entry off, is told to the
/// viewers, and never reaches training. Thread: the thread that runs the step.
class Tracer {
 public:
  /// `group`: a communicator of the tracer's own along the tensor axis. `sink` may be null on
  /// ranks that are no leader; it outlives the tracer.
  Tracer(PlanContext context, const TracerIdentity& identity, const comm::ProcessGroup& group,
         TraceSink* sink);
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  /// Takes effect at the next begin_forward; REQUIRES: no forward is open; same plan on all ranks.
  void set_plan(std::shared_ptr<const Plan> plan);
  const Plan& plan() const;
  /// What plans are checked against.
  const PlanContext& context() const;

  void begin_forward(const ForwardScope& scope);
  void end_forward();
  void end_backward();
  /// Completes every gather that is under way and sends the records.
  void finish();

  /// True while some entry of the open forward is to be captured: the one branch of an idle point.
  bool armed() const { return armed_; }

  /// `local`: this rank's shard, [batch, sequence, local features] or as the place's dims say,
  /// or [batch × sequence, local features]. Only reads it.
  void capture(const points::PlaceKey& place, const at::Tensor& local) {
    if (armed_) [[unlikely]]
      capture_watched(place, local);
  }

  /// Of a point that is computed only to be watched: captures what `make` returns, of these sizes
  /// and this dtype. Should it throw, the entries are switched off and training goes on; the
  /// ranks' buffers stay of one shape.
  template <typename Make>
  void capture_derived(const points::PlaceKey& place, at::IntArrayRef sizes, at::ScalarType dtype,
                       Make&& make) {
    if (armed_) [[unlikely]]
      make_and_capture(place, sizes, dtype, std::forward<Make>(make));
  }

  /// The gradient of such a point, for entries that want it: captures what `make` computes in the
  /// backward pass from the gradient of `from`, of these sizes and this dtype. As capture_derived.
  /// REQUIRES: rows_wanted() of the gradient is not 0.
  void capture_derived_gradient(const points::PlaceKey& place, const DerivedGradient& made);

  /// For such points: the first so many batch rows of `batch` that the open forward's entries want
  /// of it, or of its gradient; 0: none.
  std::int64_t rows_wanted(const points::PlaceKey& place, std::int64_t batch,
                           bool gradient = false) const;

  /// Leader: entries of the plan that were switched off since the last call, because they failed or
  /// took too long on some rank. They send nothing; a plan that disables them ends their cost too.
  std::vector<std::size_t> take_switched_off();

  /// CPU seconds that this thread has spent in the tracer so far.
  TracerSeconds seconds() const;

 private:
  void capture_watched(const points::PlaceKey& place, const at::Tensor& local) noexcept;
  void make_and_capture(const points::PlaceKey& place, at::IntArrayRef sizes, at::ScalarType dtype,
                        const std::function<at::Tensor()>& make);

  struct State;
  std::unique_ptr<State> state_;
  bool armed_ = false;
};

}  // namespace tt::trace
