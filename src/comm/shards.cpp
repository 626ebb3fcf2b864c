#include "tensor_tracer/comm/shards.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace tt::comm {

at::Tensor take_shard(const at::Tensor& full, const mesh::Placement& placement, int rank,
                      int ranks) {
  std::vector<at::Tensor> parts;
  for (const mesh::Interval& interval : intervals_of_rank(placement, rank, ranks))
    parts.push_back(full.narrow(placement.dim, interval.begin, interval.end - interval.begin));
  return at::cat(parts, placement.dim);
}

std::vector<std::int64_t> shard_shape(const mesh::Placement& placement,
                                      std::vector<std::int64_t> full_shape, int rank, int ranks) {
  full_shape[static_cast<std::size_t>(placement.dim)] = local_size(placement, rank, ranks);
  return full_shape;
}

at::Tensor all_gather_full(const at::Tensor& local, const mesh::Placement& placement,
                           const comm::ProcessGroup& group) {
  std::vector<std::int64_t> shape = local.sizes().vec();
  const auto dim = static_cast<std::size_t>(placement.dim);
  shape[dim] = placement.full_size();
  // Shards may differ in size; all are sent with the size of the largest.
  std::int64_t widest = 0;
  for (int rank = 0; rank < group.size(); ++rank)
    widest = std::max(widest, local_size(placement, rank, group.size()));
  const at::Tensor own = local.movedim(placement.dim, 0);
  std::vector<std::int64_t> slab = own.sizes().vec();
  slab[0] = widest;
  slab.insert(slab.begin(), group.size());
  at::Tensor all = at::zeros(slab, local.options());
  all[group.rank()].narrow(0, 0, own.size(0)).copy_(own);
  const at::Tensor mine = all[group.rank()];
  group.all_gather(mine, all);
  at::Tensor full = at::empty(shape, local.options());
  std::int64_t filled = 0;  // an interval below this index is another partial sum
  for (const mesh::Interval& at : owned_intervals(placement, group.size(), placement.full_size())) {
    const std::int64_t width = at.end - at.begin;
    at::Tensor target = full.narrow(placement.dim, at.begin, width);
    const at::Tensor part =
        all[at.owner].narrow(0, at.local_begin, width).movedim(0, placement.dim);
    at.begin < filled ? target.add_(part) : target.copy_(part);
    filled = at.end;
  }
  return full;
}

}  // namespace tt::comm
