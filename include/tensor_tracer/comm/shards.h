#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/mesh/placement.h"

namespace tt::comm {

/// A copy of the shard of `full` that `rank` of `ranks` holds, in the rank's local order. REQUIRES:
/// kShard.
at::Tensor take_shard(const at::Tensor& full, const mesh::Placement& placement, int rank,
                      int ranks);

/// The inverse: the full contiguous tensor, on every rank. Copies of a chunk are read from the
/// owner; partial sums are added in the order of ranks. Collective over `group`. REQUIRES: kShard.
at::Tensor all_gather_full(const at::Tensor& local, const mesh::Placement& placement,
                           const comm::ProcessGroup& group);

/// The shape of rank `rank`'s shard of a tensor of `full_shape`. REQUIRES: kShard.
std::vector<std::int64_t> shard_shape(const mesh::Placement& placement,
                                      std::vector<std::int64_t> full_shape, int rank, int ranks);

}  // namespace tt::comm
