#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "src/intervene/places.h"
#include "tensor_tracer/trace/plan.h"

namespace tt::intervene {

/// Distribution and seed of a noise leaf.
struct NoiseKind {
  bool is_uniform = false;  // true: [0, 1); false: normal, mean 0, deviation 1
  std::int64_t seed = 0;
};

/// Random numbers of the ref's shape, or with `is_local` of this rank's shard: Philox 4x32-10
/// (Salmon et al. 2011). The key is (seed, step, phase, prompt set, place, layer). The counter is
/// the logical position of each number (row of the global batch, token, feature; of a weight: its
/// row and column), so a shard has the same bits as that part of the whole. Normal numbers by Box
/// and Muller (1958). REQUIRES: the ref has a shape [batch, sequence, features], or is a weight.
at::Tensor draw_noise(const NoiseKind& kind, const PlaceRef& ref, const trace::ForwardScope& scope,
                      std::uint64_t run_seed, int rank, int ranks, bool is_local);

}  // namespace tt::intervene
