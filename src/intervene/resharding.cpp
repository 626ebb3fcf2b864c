#include "src/intervene/resharding.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>
#include <vector>

#include "tensor_tracer/comm/shards.h"

namespace tt::intervene {
namespace {

using mesh::Placement;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What a node of the graph keeps. A program may be gone before the backward.
class Sharing : public torch::CustomClassHolder {
 public:
  Sharing(Placement of, const SharedGroup& group)
      : placement(std::move(of)), rank(group->rank()), ranks(group->size()), group_(group) {}

  /// Null: the tracer has left the group.
  SharedGroup group() const { return group_.lock(); }

  const Placement placement;
  const int rank;
  const int ranks;

 private:
  const std::weak_ptr<const comm::ProcessGroup> group_;
};

void keep(AutogradContext* ctx, const Placement& placement, const SharedGroup& group) {
  ctx->saved_data["sharing"] =
      c10::IValue::make_capsule(c10::make_intrusive<Sharing>(placement, group));
}

c10::intrusive_ptr<Sharing> kept(AutogradContext* ctx) {
  return c10::static_intrusive_pointer_cast<Sharing>(ctx->saved_data["sharing"].toCapsule());
}

// If several ranks hold copies of a chunk, they hold partial sums of its gradient, or copies of it.
Placement gradient_of(Placement placement, int ranks) {
  for (mesh::Segment& segment : placement.segments)
    segment.partial = segment.chunks < ranks && !segment.copies_gradient;
  return placement;
}

// The logical tensor with this rank's shard alone.
at::Tensor own_part(const at::Tensor& local, const Sharing& sharing) {
  const Placement& placement = sharing.placement;
  std::vector<std::int64_t> shape = local.sizes().vec();
  shape[static_cast<std::size_t>(placement.dim)] = placement.full_size();
  at::Tensor full = at::zeros(shape, local.options());
  for (const auto& at : mesh::intervals_of_rank(placement, sharing.rank, sharing.ranks)) {
    const std::int64_t width = at.end - at.begin;
    full.narrow(placement.dim, at.begin, width)
        .copy_(local.narrow(placement.dim, at.local_begin, width));
  }
  return full;
}

// The training must not see that the tracer has ended, here or on another rank.
at::Tensor gather_gradient(const at::Tensor& local, const Sharing& sharing) {
  const SharedGroup group = sharing.group();
  if (group == nullptr) return own_part(local, sharing);
  try {
    return comm::all_gather_full(local, gradient_of(sharing.placement, sharing.ranks), *group);
  } catch (const comm::CommError&) {
    return own_part(local, sharing);
  }
}

class Gather : public torch::autograd::Function<Gather> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& local,
                            const Placement& placement, const SharedGroup& group) {
    keep(ctx, placement, group);
    return comm::all_gather_full(local, placement, *group);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto sharing = kept(ctx);
    return {scatter_partial_sums(gradients[0], sharing->placement, sharing->rank, sharing->ranks),
            at::Tensor(), at::Tensor()};
  }
};

class Scatter : public torch::autograd::Function<Scatter> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& full,
                            const Placement& placement, const SharedGroup& group) {
    keep(ctx, placement, group);
    return comm::take_shard(full, placement, group->rank(), group->size());
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    return {gather_gradient(gradients[0], *kept(ctx)), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor gather_shards(const at::Tensor& local, const Placement& placement,
                         const SharedGroup& group) {
  return Gather::apply(local, placement, group);
}

at::Tensor scatter_shards(const at::Tensor& full, const Placement& placement,
                          const SharedGroup& group) {
  return Scatter::apply(full, placement, group);
}

at::Tensor scatter_partial_sums(const at::Tensor& full, const Placement& placement, int rank,
                                int ranks) {
  at::Tensor local = comm::take_shard(full, placement, rank, ranks);
  if (placement.segments.front().copies_gradient) return local;
  for (const auto& interval : mesh::intervals_of_rank(placement, rank, ranks)) {
    if (interval.owner == rank) continue;
    local.narrow(placement.dim, interval.local_begin, interval.end - interval.begin).zero_();
  }
  return local;
}

}  // namespace tt::intervene
