#pragma once

#include <ATen/core/Tensor.h>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/mesh/placement.h"

/// Conversions between shards and logical tensors, with gradients. Every rank computes the same
/// logical tensor, so its gradient is the same on all ranks and is not summed. All functions are
/// collective over the group; placement and group outlive the graph. REQUIRES: a sharded placement.
namespace tt::intervene {

/// The logical tensor from the shards of all ranks, contiguous.
at::Tensor gather_shards(const at::Tensor& local, const mesh::Placement& placement,
                         const comm::ProcessGroup& group);

/// This rank's shard of the logical tensor.
at::Tensor scatter_shards(const at::Tensor& full, const mesh::Placement& placement,
                          const comm::ProcessGroup& group);

/// This rank's shard of a gradient. If several ranks hold copies of a chunk and their gradients are
/// partial sums, the owner gets the gradient, and the other ranks get zeros.
at::Tensor scatter_partial_sums(const at::Tensor& full, const mesh::Placement& placement,
                                const comm::ProcessGroup& group);

}  // namespace tt::intervene
