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

/// The gradient of a trace point that is computed only for capture.
struct DerivedGradient {
  std::vector<std::int64_t> sizes;
  at::ScalarType dtype = at::kFloat;
  at::Tensor from;                                    // tensor of the forward, in the graph
  std::function<at::Tensor(const at::Tensor&)> make;  // from the gradient of `from`
};

/// The tokens of a pass; see Pass::set_text.
struct PassText {
  at::Tensor tokens, targets;  // undefined: unknown
  /// bool [batch, sequence]: the token is part of a response, as ProgramTokens::response; of a
  /// prompt (undefined: unknown). The tokens of a row are neighbours, except in training.
  at::Tensor response = {}, prompt = {};
};

/// The part of a pass that entries need: the first rows of the batch, and tokens [first, end).
struct TokenWindow {
  std::int64_t rows = 0;  // 0: nothing
  std::int64_t first_token = 0, end_token = 0;

  std::int64_t tokens() const { return end_token - first_token; }
  void include(const TokenWindow& other);
};

/// One forward pass and its backward pass. Tracer::begin() opens a pass. The pass owns its buffers.
/// It keeps the plan that was in force when it began.
///
///     trace::Pass pass = tracer.begin(scope);
///     … pass.capture(qkv, tensor) from the model …
///     pass.end_forward();      // posts the gather, which runs during the backward pass
///     loss.backward();
///     pass.end_backward();     // sends the values; posts the gather of the gradients
///     pass.finish();           // completes the other gathers and sends the records
///
/// Several passes may be open at once; their forwards and backwards may run in any order. But all
/// ranks of the tensor axis must call end_forward(), end_backward() and the destructors of passes
/// in the same order, because these may be collective. If one rank drops a pass without
/// end_forward(), all ranks must drop that pass.
///
/// Captured values are copies: a capture adds no autograd node and writes nothing in place. Tensor
/// hooks read the gradients; after the pass has ended the hooks do nothing. An exception during a
/// capture switches the entry off. The viewers get a report of it; it never reaches training.
///
/// Recomputed activations are captured once. Values: after end_forward() no value is captured.
/// Gradients: the pass watches the first tensor of a place that is in the graph. With activation
/// recomputation the forward runs without a graph and the layers run again in the backward. Then
/// set ForwardScope::recomputes when the pass begins.
///
/// Thread: the thread that runs the step.
class Pass {
 public:
  /// Captures nothing.
  Pass() = default;
  Pass(Pass&& other) noexcept;
  Pass& operator=(Pass&& other) noexcept;
  /// Waits for a pending gather; sends nothing more.
  ~Pass();

  /// True while some entry may still capture. This check is the only cost of an idle trace point.
  bool armed() const { return armed_; }

  /// The input tokens, and the tokens that the model should predict (-1: unknown; on the CPU), both
  /// int64 [batch, sequence]. They are only read. Call it before the forward. Without it, all
  /// targets are unknown and no list of tokens is kept.
  void set_text(const PassText& text);

  /// `local`: this rank's shard, [batch, sequence, local features] or as the place's dims say, or
  /// [batch × sequence, local features]. It is only read.
  void capture(const points::PlaceKey& place, const at::Tensor& local) {
    if (armed_) [[unlikely]]
      capture_watched(place, local);
  }

  /// For a trace point that is computed only for capture: captures the tensor that `make` returns,
  /// with these sizes and this dtype. If `make` throws, the entries are switched off and training
  /// continues; the buffers keep the layout that the other ranks expect.
  template <typename Make>
  void capture_derived(const points::PlaceKey& place, at::IntArrayRef sizes, at::ScalarType dtype,
                       Make&& make) {
    if (armed_) [[unlikely]]
      make_and_capture(place, sizes, dtype, std::forward<Make>(make));
  }

  /// The gradient of a trace point that is computed only for capture: captures the tensor that
  /// `made.make` computes in the backward pass from the gradient of `made.from`. Errors as in
  /// capture_derived. REQUIRES: rows_wanted() of the gradient is not 0.
  void capture_derived_gradient(const points::PlaceKey& place, const DerivedGradient& made);

  /// For a trace point that is computed only for capture: the number of first batch rows, of
  /// `batch`, that the entries need of the value or of the gradient; 0: no rows.
  std::int64_t rows_wanted(const points::PlaceKey& place, std::int64_t batch,
                           bool gradient = false) const;

  /// For a trace point that is computed only for capture: the part of a value [batch, tokens, …]
  /// that the entries need. The other rows are left out; the numbers of other tokens are not read.
  TokenWindow wanted(const points::PlaceKey& place, std::int64_t batch, std::int64_t tokens) const {
    if (!armed_) [[likely]]
      return {};
    return find_wanted(place, batch, tokens);
  }

  void end_forward();
  /// REQUIRES: end_forward().
  void end_backward();
  /// Completes all pending gathers, sends the records, and ends the pass; with a device later, see
  /// Tracer::deliver(). end_backward() may be omitted.
  void finish();

 private:
  friend class Tracer;
  struct State;
  Pass(std::shared_ptr<TracerCore> core, const ForwardScope& scope);
  TokenWindow find_wanted(const points::PlaceKey& place, std::int64_t batch,
                          std::int64_t tokens) const;
  void capture_watched(const points::PlaceKey& place, const at::Tensor& local) noexcept;
  void make_and_capture(const points::PlaceKey& place, at::IntArrayRef sizes, at::ScalarType dtype,
                        const std::function<at::Tensor()>& make);

  std::shared_ptr<State> state_;  // null: captures nothing; tensor hooks hold a weak_ptr
  bool armed_ = false;
};

}  // namespace tt::trace
