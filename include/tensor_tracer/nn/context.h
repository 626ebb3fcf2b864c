#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <utility>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/points/place_table.h"
#include "tensor_tracer/trace/intervention_pass.h"
#include "tensor_tracer/trace/pass.h"

namespace tt::nn {

/// What every layer of one rank is built with. Layers keep copies of the handles they need.
struct BuildContext {
  /// Ranks along the tensor axis.
  comm::ProcessGroup tensor;
  std::uint64_t seed = 0;
  at::ScalarType params_dtype = at::kFloat;
  /// dtype of activations and of the matrices that multiply them.
  at::ScalarType compute_dtype = at::kFloat;
  /// Of parameters. kMeta: they have a shape and no numbers, and the model describes itself only.
  at::Device device = at::kCPU;
  /// Ranks of a model that is described only, without a group; 0: those of `tensor`.
  int described_ranks = 0;

  int tensor_ranks() const { return described_ranks > 0 ? described_ranks : tensor.size(); }
};

/// What one forward pass is given besides its input. The passes outlive it, and a recomputation of
/// its layers in the backward.
struct ForwardContext {
  trace::Pass& pass;
  std::uint64_t seed = 0;
  std::int64_t step = 1;
  std::int64_t first_row = 0;                        // of this micro-batch, in the global batch
  bool is_training = true;                           // dropout on
  trace::InterventionPass* interventions = nullptr;  // null: no program acts in this forward

  /// `x` as it goes on from a trace point: changed by programs, then captured.
  at::Tensor point(const points::PlaceKey& place, at::Tensor x) const {
    x = intervene(place, std::move(x));
    pass.capture(place, x);
    return x;
  }
  /// `x` as programs change it. Weights are not captured.
  at::Tensor intervene(const points::PlaceKey& place, at::Tensor x) const {
    if (interventions != nullptr && interventions->acts_at(place)) [[unlikely]]
      return interventions->at_point(place, x);
    return x;
  }
  bool skips(int layer) const { return interventions != nullptr && interventions->skips(layer); }
};

}  // namespace tt::nn
