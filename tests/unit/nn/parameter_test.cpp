// Parameters in bfloat16: what is rounded, and what is not.
#include "tensor_tracer/nn/parameter.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tensor_tracer/comm/world.h"
#include "tensor_tracer/nn/embedding.h"
#include "tensor_tracer/optim/adamw.h"
#include "tensor_tracer/train/gradients.h"

namespace tt::nn {
namespace {

BuildContext context_of(at::ScalarType dtype, const comm::ProcessGroup& group = {}) {
  BuildContext context;
  context.tensor = group;
  context.seed = 11;
  context.params_dtype = context.compute_dtype = dtype;
  return context;
}

Parameter make(const BuildContext& context, const std::string& name = "w",
               Init init = Init::kNormal) {
  return make_parameter(context, name, {4, 6}, mesh::Placement::replicate(), init, 0.02);
}

TEST(Bfloat16Parameters, AreRoundedNumbersOfAFloat32Model) {
  const Parameter wide = make(context_of(at::kFloat)), made = make(context_of(at::kBFloat16));
  EXPECT_FALSE(wide.rounded.defined());
  EXPECT_TRUE(at::equal(made.local, wide.local));
  EXPECT_EQ(made.local.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(made.value(), wide.value().to(at::kBFloat16)));
  EXPECT_FALSE(at::equal(made.value().to(at::kFloat), wide.value()));
  EXPECT_TRUE(at::equal(made.as(at::kBFloat16), made.value()));
}

TEST(Bfloat16Parameters, ThatAreLoadedHaveMainWeightsToo) {
  BuildContext context = context_of(at::kBFloat16);
  context.loads_parameters = true;
  const Parameter made = make(context);
  const at::NoGradGuard no_grad;
  made.local.fill_(1.0 / 3);
  round_main_weights({made});
  EXPECT_EQ(made.value().scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(made.value(), at::full({4, 6}, 1.0 / 3, at::kFloat).to(at::kBFloat16)));
}

TEST(Bfloat16Parameters, ThatAreFrozenAreBfloat16Alone) {
  BuildContext context = context_of(at::kBFloat16);
  context.frozen = {"*"};
  const Parameter made = make(context);
  EXPECT_EQ(made.local.scalar_type(), at::kBFloat16);
  EXPECT_FALSE(made.rounded.defined() || made.local.requires_grad());
  EXPECT_TRUE(at::equal(made.value(), make(context_of(at::kBFloat16)).value()));
}

TEST(Bfloat16Parameters, OfAdaptersAreFloat32) {
  const Parameter made = make(context_of(at::kBFloat16), "layers.1.mlp.fc2.lora_A.weight");
  EXPECT_EQ(made.local.scalar_type(), at::kFloat);
  EXPECT_FALSE(made.rounded.defined());
}

TEST(Bfloat16Parameters, DrawTheSameNumbersOnEveryMesh) {
  const auto whole_on = [](int ranks) {
    at::Tensor whole;
    comm::run_local(ranks, [&](const comm::ProcessGroup& group) {
      const Parameter made =
          make_parameter(context_of(at::kBFloat16, group), "w", {8, 3},
                         mesh::Placement::shard(0, {{8, ranks}}), Init::kNormal, 0.02);
      const at::Tensor full = gather_full(made.value(), made.placement, group);
      if (group.rank() == 0) whole = full;
    });
    return whole;
  };
  EXPECT_EQ(whole_on(1).scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(whole_on(4), whole_on(1)));
}

// 1 + 2^-10 has 11 bits.
TEST(Bfloat16Parameters, HaveGradientsThatAddUpInFloat32) {
  const Parameter made = make(context_of(at::kBFloat16));
  const auto backward = [&](double gradient) {
    const at::Tensor used = made.as(at::kBFloat16);
    EXPECT_EQ(used.scalar_type(), at::kBFloat16);
    used.backward(at::full_like(used, gradient));
  };
  backward(1.0);
  backward(std::ldexp(1.0, -10));
  const at::Tensor wanted = at::full({4, 6}, 1.0 + std::ldexp(1.0, -10), at::kFloat);
  ASSERT_EQ(made.local.grad().scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(made.local.grad(), wanted));
  const train::GradientReducer reducer({made}, comm::ProcessGroup(), comm::ProcessGroup());
  reducer.reduce();
  EXPECT_NEAR(reducer.norm(), wanted.norm().item<double>(), 1e-6);
  reducer.clip(reducer.norm(), 1.0);
  EXPECT_NEAR(reducer.norm(), 1.0, 1e-6);
}

// A token that occurs 1000 times: after 256 terms of 1, a sum in bfloat16 does not grow any more.
TEST(Bfloat16Parameters, OfAnEmbeddingSumTheirTokensInFloat32) {
  const VocabParallelEmbedding embedding(context_of(at::kBFloat16), "e", 5, 3, 0.1);
  const at::Tensor rows = embedding.forward(at::full({1, 1000}, 2, at::kLong));
  EXPECT_EQ(rows.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(rows[0][0], embedding.weight().value()[2]));
  rows.sum().backward();
  EXPECT_TRUE(at::equal(embedding.weight().local.grad()[2], at::full({3}, 1000.0, at::kFloat)));
}

// Half the distance of 1 to its neighbour below is 2^-9.
TEST(Bfloat16Parameters, MoveByUpdatesThatAreLessThanARounding) {
  const Parameter made = make(context_of(at::kBFloat16), "w", Init::kOnes);
  config::OptimizerConfig config;
  config.weight_decay = 0;
  optim::AdamW optimizer({made.local}, config);
  const double rate = 0.9 * std::ldexp(1.0, -10);
  std::vector<double> seen;
  for (int step = 0; step < 4; ++step) {
    made.local.mutable_grad() = at::ones_like(made.local.detach());
    optimizer.step(rate);
    round_main_weights({made});
    seen.push_back(made.value()[0][0].item<double>());
  }
  const double next = 1.0 - std::ldexp(1.0, -8);
  EXPECT_EQ(seen, (std::vector<double>{1.0, 1.0, next, next}));
  EXPECT_NEAR(made.local[0][0].item<double>(), 1.0 - 4 * rate, 1e-6);
  EXPECT_EQ(optimizer.moments(0).first.scalar_type(), at::kFloat);
}

// A graph that was built before the update must not be used after it.
TEST(Bfloat16Parameters, OfAnOpenForwardMayNotBeRounded) {
  const Parameter made = make(context_of(at::kBFloat16));
  const at::Tensor x = at::ones({2, 6}, at::kBFloat16).set_requires_grad(true);
  const at::Tensor y = at::linear(x, made.as(at::kBFloat16)).sum();
  round_main_weights({made});
  EXPECT_THROW(y.backward(), c10::Error);
}

}  // namespace
}  // namespace tt::nn
