#include "tensor_tracer/nn/parameter.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cstddef>

#include "tensor_tracer/base/check.h"
#include "tensor_tracer/base/hash.h"
#include "tensor_tracer/comm/shards.h"

namespace tt::nn {
namespace {

using mesh::Interval;
using mesh::Placement;

std::size_t bytes_of(const std::vector<std::int64_t>& shape, std::size_t element) {
  for (const std::int64_t size : shape) element *= static_cast<std::size_t>(size);
  return element;
}

}  // namespace

Parameter make_parameter(const BuildContext& context, const std::string& name,
                         const std::vector<std::int64_t>& full_shape, const Placement& placement,
                         Init init, double std) {
  if (context.device.is_meta()) {
    const std::vector<std::int64_t> local =
        placement.kind == Placement::Kind::kShard
            ? comm::shard_shape(placement, full_shape, 0, context.tensor_ranks())
            : full_shape;
    const auto options = at::TensorOptions().dtype(context.params_dtype).device(context.device);
    return {name, at::empty(local, options), placement, full_shape};
  }
  at::Tensor full = at::zeros(full_shape, at::device(at::kCPU).dtype(at::kFloat));
  if (init == Init::kOnes) full.fill_(1.0);
  if (init == Init::kNormal) {
    full.normal_(0.0, std,
                 at::detail::createCPUGenerator(base::mix(context.seed, base::hash_of(name))));
  }
  at::Tensor local = full;
  if (placement.kind == Placement::Kind::kShard) {
    local = comm::take_shard(full, placement, context.tensor.rank(), context.tensor.size());
  }
  local = local.to(context.params_dtype);
  return {name, local.set_requires_grad(true), placement, full_shape};
}

points::PlaceKey declare(points::PlaceTableBuilder& places, const Parameter& parameter,
                         const std::string& path, const std::string& name) {
  points::Place place{.name = name, .path = path};
  place.shape = parameter.full_shape;
  place.is_weight = true;
  place.placement = parameter.placement;
  return places.add(std::move(place));
}

points::Place sharded(points::Place place, std::vector<mesh::Segment> segments, int ranks) {
  place.placement = Placement::shard(2, segments);
  place.features = place.placement.full_size();
  for (mesh::Segment& segment : segments) segment.partial = segment.chunks < ranks;
  place.gradient = Placement::shard(2, std::move(segments));
  return place;
}

points::Place replicated(points::Place place, std::int64_t features) {
  place.features = features;
  place.gradient = Placement::replicate();
  return place;
}

at::Tensor gather_full(const at::Tensor& local, const Placement& placement,
                       const std::vector<std::int64_t>& full_shape,
                       const comm::ProcessGroup& group) {
  if (placement.kind == Placement::Kind::kReplicate) {
    return group.rank() == 0 ? local.detach() : at::Tensor();
  }
  const at::Tensor own = local.detach().contiguous();
  std::vector<std::size_t> counts;
  std::size_t total = 0;
  for (int rank = 0; rank < group.size(); ++rank) {
    counts.push_back(
        bytes_of(comm::shard_shape(placement, full_shape, rank, group.size()), own.element_size()));
    total += counts.back();
  }
  TT_CHECK_EQ(counts[static_cast<std::size_t>(group.rank())], own.nbytes());
  const bool is_root = group.rank() == 0;
  const at::Tensor all =
      at::empty({is_root ? static_cast<std::int64_t>(total) : 0}, own.options().dtype(at::kByte));
  group.gather_all_bytes(own.flatten().view(at::kByte), counts, all, 0);
  if (!is_root) return {};
  at::Tensor full = at::empty(full_shape, own.options());
  std::int64_t begin = 0;
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto bytes = static_cast<std::int64_t>(counts[static_cast<std::size_t>(rank)]);
    const at::Tensor part = all.narrow(0, begin, bytes)
                                .view(own.scalar_type())
                                .view(comm::shard_shape(placement, full_shape, rank, group.size()));
    for (const Interval& at : mesh::intervals_of_rank(placement, rank, group.size())) {
      const std::int64_t width = at.end - at.begin;
      full.narrow(placement.dim, at.begin, width)
          .copy_(part.narrow(placement.dim, at.local_begin, width));
    }
    begin += bytes;
  }
  return full;
}

at::Tensor in_dtype(const Parameter& parameter, at::ScalarType dtype) {
  return parameter.local.scalar_type() == dtype ? parameter.local : parameter.local.to(dtype);
}

}  // namespace tt::nn
