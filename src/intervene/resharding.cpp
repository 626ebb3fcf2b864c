#include "src/intervene/resharding.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "tensor_tracer/comm/shards.h"

namespace tt::intervene {
namespace {

using mesh::Placement;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// If several ranks hold copies of a chunk, they hold partial sums of its gradient, or copies of it.
Placement gradient_of(Placement placement, int ranks) {
  for (mesh::Segment& segment : placement.segments)
    segment.partial = segment.chunks < ranks && !segment.copies_gradient;
  return placement;
}

template <typename T>
void keep(AutogradContext* ctx, const char* name, const T& object) {
  ctx->saved_data[name] = reinterpret_cast<std::int64_t>(&object);
}

template <typename T>
const T& kept(AutogradContext* ctx, const char* name) {
  return *reinterpret_cast<const T*>(ctx->saved_data[name].toInt());
}

class Gather : public torch::autograd::Function<Gather> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& local,
                            const Placement& placement, const comm::ProcessGroup& group) {
    keep(ctx, "placement", placement);
    keep(ctx, "group", group);
    return comm::all_gather_full(local, placement, group);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    return {scatter_partial_sums(gradients[0], kept<Placement>(ctx, "placement"),
                                 kept<comm::ProcessGroup>(ctx, "group")),
            at::Tensor(), at::Tensor()};
  }
};

class Scatter : public torch::autograd::Function<Scatter> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& full,
                            const Placement& placement, const comm::ProcessGroup& group) {
    keep(ctx, "placement", placement);
    keep(ctx, "group", group);
    return comm::take_shard(full, placement, group.rank(), group.size());
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto& group = kept<comm::ProcessGroup>(ctx, "group");
    const Placement placement = gradient_of(kept<Placement>(ctx, "placement"), group.size());
    return {comm::all_gather_full(gradients[0], placement, group), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor gather_shards(const at::Tensor& local, const Placement& placement,
                         const comm::ProcessGroup& group) {
  return Gather::apply(local, placement, group);
}

at::Tensor scatter_shards(const at::Tensor& full, const Placement& placement,
                          const comm::ProcessGroup& group) {
  return Scatter::apply(full, placement, group);
}

at::Tensor scatter_partial_sums(const at::Tensor& full, const Placement& placement,
                                const comm::ProcessGroup& group) {
  at::Tensor local = comm::take_shard(full, placement, group.rank(), group.size());
  if (placement.segments.front().copies_gradient) return local;
  for (const auto& interval : mesh::intervals_of_rank(placement, group.rank(), group.size())) {
    if (interval.owner == group.rank()) continue;
    local.narrow(placement.dim, interval.local_begin, interval.end - interval.begin).zero_();
  }
  return local;
}

}  // namespace tt::intervene
