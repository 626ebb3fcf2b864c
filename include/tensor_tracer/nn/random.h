#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace tt::nn {

/// Dropout factors: 0 with probability `rate`, else 1 / (1 - rate); float [streams, per_stream].
/// Row i is drawn by Philox 4x32-10 (Salmon et al. 2011) with `key` from subsequence streams[i]. So
/// it depends only on the logical position and is the same on every mesh.
at::Tensor dropout_factors(std::uint64_t key, const std::vector<std::int64_t>& streams,
                           std::int64_t per_stream, double rate);

}  // namespace tt::nn
