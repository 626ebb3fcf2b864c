#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/mesh/placement.h"

/// Conversions between shards and logical tensors, with gradients. Every rank computes the same
/// logical tensor, so its gradient is the same on all ranks and is not summed. The graph does not
/// keep the group: a backward after the group's last owner has left it has no communication.
/// REQUIRES: a sharded placement.
namespace tt::intervene {

using SharedGroup = std::shared_ptr<const comm::ProcessGroup>;

/// The logical tensor from the shards of all ranks, contiguous. Collective over the group.
at::Tensor gather_shards(const at::Tensor& local, const mesh::Placement& placement,
                         const SharedGroup& group);

/// This rank's shard of the logical tensor. The backward is collective over the group. If this or
/// another rank has left it, the gradient of other ranks' shards is zero.
at::Tensor scatter_shards(const at::Tensor& full, const mesh::Placement& placement,
                          const SharedGroup& group);

/// The shard of a gradient that `rank` of `ranks` holds. If several ranks hold copies of a chunk
/// and their gradients are partial sums, the owner gets the gradient, and the other ranks get
/// zeros.
at::Tensor scatter_partial_sums(const at::Tensor& full, const mesh::Placement& placement, int rank,
                                int ranks);

}  // namespace tt::intervene
