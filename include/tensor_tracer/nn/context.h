#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <utility>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/trace/intervention_hooks.h"
#include "tensor_tracer/trace/tracer.h"

namespace tt::nn {

/// What every layer of one rank is built with. Layers keep copies of the handles they need.
struct BuildContext {
  /// Ranks along the tensor axis.
  comm::ProcessGroup tensor;
  std::uint64_t seed = 0;
  at::ScalarType params_dtype = at::kFloat;
  /// dtype of activations and of the matrices that multiply them.
  at::ScalarType compute_dtype = at::kFloat;
  double init_std = 0.02;
};

/// What one forward pass is given besides its input. Tracer and hooks outlive the pass.
struct ForwardContext {
  trace::Tracer& tracer;
  std::uint64_t seed = 0;
  std::int64_t step = 1;
  std::int64_t first_row = 0;                 // of this micro-batch, in the global batch
  bool is_training = true;                    // dropout on
  trace::InterventionHooks* hooks = nullptr;  // null: no program acts in this forward

  /// `x` as it goes on from a trace point: changed by programs, then captured.
  at::Tensor point(trace::PointFlag flag, int layer, at::Tensor x) const {
    x = place(flag, layer, std::move(x));
    tracer.capture(flag, layer, x);
    return x;
  }
  /// The same of what is not captured.
  at::Tensor place(trace::PointFlag flag, int layer, at::Tensor x) const {
    if (hooks != nullptr && hooks->acts_at(flag, layer)) [[unlikely]]
      return hooks->at_point(flag, layer, x);
    return x;
  }
  bool skips(int layer) const { return hooks != nullptr && hooks->skips(layer); }
};

}  // namespace tt::nn
