#pragma once

#include <ATen/core/Tensor.h>

#include "tensor_tracer/points/place_table.h"

namespace tt::trace {

/// The programs that act in one forward pass and in its backward pass, as
/// InterventionHooks::begin() opens it. Several may be open at once, with their forwards and
/// backwards in any order; on all ranks of the tensor axis at_point(), skips(), end() and the
/// backward keep one order, because programs gather there. A pass that is dropped without end()
/// keeps no saves, and gradients that arrive later go on unchanged.
///
/// A place that is met again, in a recomputation, is changed as before; nothing is counted, saved
/// or told twice. With ForwardScope::recomputes the values of programs are kept for it until end().
///
/// Thread: the thread that runs the step.
class InterventionPass {
 public:
  virtual ~InterventionPass() = default;

  /// Whether at_point() has something to do there, now or in the backward.
  bool acts_at(const points::PlaceKey& place) const { return acts_[place.index]; }
  /// What the forward goes on with instead of `local`, this rank's shard of the place; itself where
  /// nothing is changed. Collective along the tensor axis.
  virtual at::Tensor at_point(const points::PlaceKey& place, const at::Tensor& local) = 0;
  /// Some program reads this place, which is computed only to be read.
  virtual bool reads(const points::PlaceKey& place) const = 0;
  /// Some program writes this place, so that the forward must go on with a value of it.
  virtual bool writes(const points::PlaceKey& place) const = 0;
  /// The layer is left out. Collective along the tensor axis.
  virtual bool skips(int layer) = 0;
  /// After the backward, or after a forward that has none: the next pass over the same rows can
  /// read what this one saved. Collective along the tensor axis.
  virtual void end() = 0;

 protected:
  /// By PlaceKey::index: most places of a forward have nothing to do.
  const bool* acts_ = nullptr;
};

}  // namespace tt::trace
