#pragma once

#include <ATen/core/Tensor.h>

#include "tensor_tracer/points/place_table.h"

namespace tt::trace {

/// The programs that act in one forward pass and in its backward pass. InterventionHooks::begin()
/// opens a pass. Several passes may be open at once; their forwards and backwards may run in any
/// order. All ranks of the tensor axis must run at_point(), skips(), end() and the backward in the
/// same order, because programs gather there. If a pass is destroyed without end(), its saved
/// values are dropped, and gradients that arrive later stay unchanged.
///
/// When a recomputation reaches a place again, the place is changed as before; nothing is counted,
/// saved or reported twice. With ForwardScope::recomputes the pass keeps the values of programs for
/// the recomputation until end().
///
/// Thread: the thread that runs the step.
class InterventionPass {
 public:
  virtual ~InterventionPass() = default;

  /// True if at_point() has work at this place, now or in the backward.
  bool acts_at(const points::PlaceKey& place) const { return acts_[place.index]; }
  /// Returns the tensor that the forward must use in place of `local`, this rank's shard of the
  /// place. If nothing changes, it returns `local`. Collective along the tensor axis.
  virtual at::Tensor at_point(const points::PlaceKey& place, const at::Tensor& local) = 0;
  /// True if some program reads this place. Asked for places that are computed only for reading.
  virtual bool reads(const points::PlaceKey& place) const = 0;
  /// True if some program writes this place; then the forward must use the written value.
  virtual bool writes(const points::PlaceKey& place) const = 0;
  /// True if programs skip this layer. Collective along the tensor axis.
  virtual bool skips(int layer) = 0;
  /// Call it after the backward, or after a forward without a backward. Then the next pass over the
  /// same rows can read the values that this pass saved. Collective along the tensor axis.
  virtual void end() = 0;

 protected:
  /// By PlaceKey::index. A plain array, because programs act at few places of a forward.
  const bool* acts_ = nullptr;
};

}  // namespace tt::trace
