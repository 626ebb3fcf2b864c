#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tensor_tracer/points/place_table.h"

namespace tt::trace {

struct ForwardScope;
struct TracerCore;

/// The gradient of a point that is computed only to be watched.
struct DerivedGradient {
  std::vector<std::int64_t> sizes;
  at::ScalarType dtype = at::kFloat;
  at::Tensor from;                                    // of the forward, in the graph
  std::function<at::Tensor(const at::Tensor&)> make;  // of the gradient of `from`
};

/// One forward pass and its backward pass, as Tracer::begin() opens it. It owns its buffers and
/// keeps the plan that it began with.
///
///     trace::Pass pass = tracer.begin(scope);
///     … pass.capture(qkv, tensor) from the model …
///     pass.end_forward();      // posts the gather, which runs beside the backward pass
///     loss.backward();
///     pass.end_backward();     // sends the values; posts the gather of the gradients
///     pass.finish();           // completes what is left and sends it
///
/// Several passes may be open at once, with their forwards and backwards in any order. Only
/// end_forward(), end_backward() and the destructor of a pass keep one order on all ranks of the
/// tensor axis, because they may be collective; a pass that one rank drops without end_forward()
/// all ranks drop.
///
/// Captured values are copies; no autograd node is added and nothing is written in place. Gradients
/// are read by tensor hooks, which do nothing once their pass is over. An exception while capturing
/// switches the entry off, is told to the viewers, and never reaches training.
///
/// Recomputed activations are captured once. Values: after end_forward() none is captured.
/// Gradients: the first tensor of a place that is in the graph is watched. Where the forward runs
/// without a graph and its layers run again in the backward, as with checkpoints, the pass must
/// know it from the beginning: ForwardScope::recomputes.
///
/// Thread: the thread that runs the step.
class Pass {
 public:
  /// Captures nothing.
  Pass() = default;
  Pass(Pass&& other) noexcept;
  Pass& operator=(Pass&& other) noexcept;
  /// Waits for a gather that is under way; sends nothing more.
  ~Pass();

  /// True while some entry is to be captured: the one branch of an idle point.
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

  /// For such points: the first so many batch rows of `batch` that the entries want of it, or of
  /// its gradient; 0: none.
  std::int64_t rows_wanted(const points::PlaceKey& place, std::int64_t batch,
                           bool gradient = false) const;

  void end_forward();
  /// REQUIRES: end_forward().
  void end_backward();
  /// Completes every gather that is under way, sends the records, and ends the pass. With or
  /// without end_backward().
  void finish();

 private:
  friend class Tracer;
  struct State;
  Pass(std::shared_ptr<TracerCore> core, const ForwardScope& scope);
  void capture_watched(const points::PlaceKey& place, const at::Tensor& local) noexcept;
  void make_and_capture(const points::PlaceKey& place, at::IntArrayRef sizes, at::ScalarType dtype,
                        const std::function<at::Tensor()>& make);

  std::shared_ptr<State> state_;  // null: nothing is captured; tensor hooks hold it weakly
  bool armed_ = false;
};

}  // namespace tt::trace
