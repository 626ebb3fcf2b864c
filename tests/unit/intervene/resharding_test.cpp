// Conversions between shards and logical tensors, whose graph may outlive placement and group.

#include "src/intervene/resharding.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <stdexcept>

#include "tensor_tracer/comm/world.h"

namespace tt::intervene {
namespace {

using mesh::Placement;

// The gradient of the sum over a rank's shard of a logical tensor of ones. `leaves`: the group is
// gone before the backward, as the placement always is.
at::Tensor gradient_of_shard(const comm::ProcessGroup& group, bool leaves) {
  auto placement = std::make_optional(Placement::shard(0, {{.size = 6, .chunks = group.size()}}));
  auto shared = std::make_shared<const comm::ProcessGroup>(group);
  const at::Tensor full = at::ones({6}).requires_grad_();
  const at::Tensor sum = scatter_shards(full, *placement, shared).sum();
  placement.reset();
  if (leaves) shared.reset();
  sum.backward();
  return full.grad();
}

TEST(Resharding, AShardHasTheGradientOfAllRanks) {
  comm::run_local(
      2,
      [](const comm::ProcessGroup& group) {
        EXPECT_TRUE(gradient_of_shard(group, false).equal(at::ones({6})));
      });
}

TEST(Resharding, WithoutItsGroupAShardHasItsOwnGradient) {
  comm::run_local(
      2,
      [](const comm::ProcessGroup& group) {
        const at::Tensor expected = at::zeros({6});
        expected.narrow(0, 3 * group.rank(), 3).fill_(1);
        EXPECT_TRUE(gradient_of_shard(group, true).equal(expected));
      });
}

struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST(Resharding, IfAnotherRankIsGoneAShardHasItsOwnGradient) {
  bool has_own = false;
  const auto backward = [&](const comm::ProcessGroup& group) {
    const auto shared = std::make_shared<const comm::ProcessGroup>(group);
    const at::Tensor full = at::ones({6}).requires_grad_();
    const auto placement = Placement::shard(0, {{.size = 6, .chunks = 2}});
    const at::Tensor sum = scatter_shards(full, placement, shared).sum();
    if (group.rank() == 1) throw Broken("rank 1");
    sum.backward();
    has_own = full.grad().equal(at::tensor({1.0F, 1.0F, 1.0F, 0.0F, 0.0F, 0.0F}));
  };
  EXPECT_THROW(comm::run_local(2, backward), Broken);
  EXPECT_TRUE(has_own);
}

TEST(Resharding, TheBackwardOfAGatheredTensorNeedsNoGroup) {
  comm::run_local(
      2,
      [](const comm::ProcessGroup& group) {
        auto placement = std::make_optional(Placement::shard(0, {{.size = 6, .chunks = 2}}));
        auto shared = std::make_shared<const comm::ProcessGroup>(group);
        const at::Tensor local = at::ones({3}).requires_grad_();
        const at::Tensor sum = (gather_shards(local, *placement, shared) * at::arange(6.0)).sum();
        placement.reset();
        shared.reset();
        sum.backward();
        EXPECT_TRUE(local.grad().equal(at::arange(6.0).narrow(0, 3 * group.rank(), 3)));
      });
}

}  // namespace
}  // namespace tt::intervene
