#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/mesh/placement.h"

namespace tt::comm {

/// The rows of `full` that `rank` of `ranks` holds, in its local order; a copy.
/// REQUIRES: kShard.
at::Tensor take_shard(const at::Tensor& full, const mesh::Placement& placement, int rank,
                      int ranks);

/// The inverse on every rank, collective over `group`: a contiguous tensor whose sharded dim is
/// whole. Of copies the owner's is taken, of partial sums the sum in the order of ranks.
/// REQUIRES: kShard.
at::Tensor all_gather_full(const at::Tensor& local, const mesh::Placement& placement,
                           const comm::ProcessGroup& group);

/// The shape of rank `rank`'s shard of a tensor of `full_shape`. REQUIRES: kShard.
std::vector<std::int64_t> shard_shape(const mesh::Placement& placement,
                                      std::vector<std::int64_t> full_shape, int rank, int ranks);

}  // namespace tt::comm
