#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tensor_tracer/vectors/group_sums.h"
#include "tensor_tracer/vectors/kinds.h"

namespace tt::vectors {

/// How far a vector depends on the choice of texts: the cosine between each row and the same row of
/// vectors from resampled texts. float64 [rows]; NaN: there are fewer than two groups.
struct Stability {
  at::Tensor mean;
  at::Tensor low;  // the cosine that 95 % of the resamples reach
};

/// Draws as many groups as there are, with replacement, `resamples` times, and makes a vector of
/// each draw (the bootstrap of Efron 1979 over groups of texts). `is_paired`: both sides get one
/// draw; else each side its own. Deterministic by `seed`. Thread: any.
Stability bootstrap(const GroupSums& sums, Kind kind, bool is_paired, std::int64_t resamples,
                    std::uint64_t seed);

}  // namespace tt::vectors
