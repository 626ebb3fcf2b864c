// Sharded equals unsharded, output and every gradient, for each parallel layer. A collective left
// out of the forward or backward pass, a shard cut at the wrong place or a bias added once per rank
// shows here. Sums that cross ranks are compared within 1e-12, all else is exact.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "tensor_tracer/base/hash.h"
#include "tensor_tracer/comm/shards.h"
#include "tensor_tracer/comm/world.h"
#include "tensor_tracer/nn/attention.h"
#include "tensor_tracer/nn/embedding.h"
#include "tensor_tracer/nn/mlp.h"
#include "tensor_tracer/nn/random.h"
#include "tensor_tracer/train/gradients.h"

namespace tt::nn {
namespace {

using Results = std::map<std::string, at::Tensor>;
using LayerRun = std::function<Results(const BuildContext&)>;

at::Tensor fixed_noise(const char* name, at::IntArrayRef shape) {
  return at::empty(shape, at::kDouble)
      .normal_(0.0, 1.0, at::detail::createCPUGenerator(base::hash_of(name)));
}

BuildContext context_of(const comm::ProcessGroup& group) {
  return {group, 11, at::kDouble, at::kDouble};
}

// Full gradients of the parameters, on rank 0.
void add_gradients(Results& results, const std::vector<Parameter>& parameters,
                   const comm::ProcessGroup& group) {
  train::GradientReducer(parameters, group, comm::ProcessGroup()).reduce();
  for (const Parameter& parameter : parameters)
    results[parameter.name] = gather_full(parameter.local.grad(), parameter.placement, group);
}

// Runs on `ranks` threads; what rank 0 got.
Results run_on(int ranks, const LayerRun& run) {
  Results first;
  comm::run_local(ranks, [&](const comm::ProcessGroup& group) {
    Results results = run(context_of(group));
    if (group.rank() == 0) first = std::move(results);
  });
  return first;
}

void expect_same_on_every_axis(const LayerRun& run, std::initializer_list<int> sizes = {2, 4}) {
  const Results whole = run_on(1, run);
  for (const int ranks : sizes) {
    for (const auto& [name, value] : run_on(ranks, run)) {
      const at::Tensor& expected = whole.at(name);
      EXPECT_LE((value - expected).abs().max().item<double>(),
                1e-12 * std::max(1.0, expected.abs().max().item<double>()))
          << name << " on " << ranks << " ranks";
    }
  }
}

// Forward and backward of x -> layer(x), weighted so that every output counts differently.
template <typename Forward>
Results through(const Forward& forward, const std::vector<Parameter>& parameters,
                const BuildContext& context, at::IntArrayRef input) {
  at::Tensor x = fixed_noise("x", input).set_requires_grad(true);
  const at::Tensor y = forward(x);
  (y * fixed_noise("weights", y.sizes())).sum().backward();
  Results results = {{"y", y.detach()}, {"x.grad", x.grad()}};
  add_gradients(results, parameters, context.tensor);
  return results;
}

struct NoTrace {
  trace::Pass pass;
  ForwardContext context(bool is_training = true) { return {pass, 5, 3, 8, is_training, nullptr}; }
};

config::ModelConfig eight_heads_of_four(std::int64_t groups) {
  config::ModelConfig config;
  config.num_attention_heads = 8;
  config.num_query_groups = groups;
  config.kv_channels = 4;
  return config;
}

LayerRun attention_with(std::int64_t groups, double rotary_base, double dropout) {
  return [=](const BuildContext& context) {
    config::ModelConfig config = eight_heads_of_four(groups);
    config.num_layers = 1;
    config.hidden_size = 16;
    config.seq_length = 6;
    if (rotary_base > 0) config.position_embedding_type = "rope";
    config.rotary_base = rotary_base;
    config.attention_dropout = dropout;
    config.init_method_std = 0.3;
    const Attention attention(context, config, "attention");
    NoTrace idle;
    return through([&](const at::Tensor& x) { return attention.forward(x, idle.context()); },
                   attention.parameters(), context, {2, 6, 16});
  };
}

LayerRun mlp_with(bool swiglu, bool bias) {
  return [=](const BuildContext& context) {
    config::ModelConfig config;
    config.num_layers = 1;
    config.hidden_size = 8;
    config.ffn_hidden_size = 16;
    config.swiglu = swiglu;
    config.disable_bias_linear = !bias;
    config.init_method_std = 0.3;
    const Mlp mlp(context, config, "mlp");
    NoTrace idle;
    return through([&](const at::Tensor& x) { return mlp.forward(x, idle.context()); },
                   mlp.parameters(), context, {2, 3, 8});
  };
}

TEST(ParallelLayers, MultiHeadAttention) { expect_same_on_every_axis(attention_with(8, 0, 0)); }
TEST(ParallelLayers, GroupedQueryAttentionWithRotary) {
  expect_same_on_every_axis(attention_with(2, 10000, 0), {2, 4, 8});
}
TEST(ParallelLayers, MultiQueryAttention) {
  expect_same_on_every_axis(attention_with(1, 0, 0), {2, 4, 8});
}
TEST(ParallelLayers, AttentionDropoutIsTheSameOnEveryMesh) {
  expect_same_on_every_axis(attention_with(8, 0, 0.3));
}
TEST(ParallelLayers, AttentionDropoutDropsSomething) {
  const auto with = run_on(1, attention_with(8, 0, 0.3));
  const auto without = run_on(1, attention_with(8, 0, 0));
  EXPECT_FALSE(at::allclose(with.at("y"), without.at("y")));
}

TEST(ParallelLayers, MlpWithGelu) { expect_same_on_every_axis(mlp_with(false, true)); }
TEST(ParallelLayers, MlpWithSwiglu) { expect_same_on_every_axis(mlp_with(true, false)); }

TEST(ParallelLayers, VocabParallelEmbeddingOfAnOddVocabulary) {
  expect_same_on_every_axis([](const BuildContext& context) {
    const VocabParallelEmbedding embedding(context, "embedding", 13, 6, 0.3);
    const at::Tensor tokens = at::arange(12, at::kLong).view({3, 4});
    const at::Tensor y = embedding.forward(tokens);
    (y * fixed_noise("weights", y.sizes())).sum().backward();
    Results results = {{"y", y.detach()}};
    add_gradients(results, embedding.parameters(), context.tensor);
    return results;
  });
}

TEST(ParallelLayers, VocabParallelCrossEntropyEqualsPyTorchs) {
  const std::int64_t vocabulary = 13;
  const at::Tensor labels = at::arange(12, at::kLong);
  const LayerRun run = [&](const BuildContext& context) {
    const auto placement = mesh::Placement::shard(1, {{vocabulary, context.tensor.size()}});
    at::Tensor local = comm::take_shard(fixed_noise("logits", {12, vocabulary}) * 30, placement,
                                        context.tensor.rank(), context.tensor.size())
                           .set_requires_grad(true);
    const at::Tensor loss = vocab_parallel_cross_entropy(
        local, labels, first_local_token(vocabulary, context.tensor), context.tensor);
    loss.backward();
    return Results{{"loss", loss.detach()},
                   {"gradient", gather_full(local.grad(), placement, context.tensor)}};
  };
  at::Tensor logits = (fixed_noise("logits", {12, vocabulary}) * 30).set_requires_grad(true);
  const at::Tensor expected = at::cross_entropy_loss(logits, labels);
  expected.backward();
  const Results whole = run_on(1, run);
  EXPECT_NEAR(whole.at("loss").item<double>(), expected.item<double>(), 1e-12);
  EXPECT_TRUE(at::allclose(whole.at("gradient"), logits.grad(), 1e-12, 1e-15));
  expect_same_on_every_axis(run);
}

TEST(Parameters, StartTheSameOnEveryMeshBitForBit) {
  const auto weight_on = [](int ranks) {
    at::Tensor full;
    comm::run_local(ranks, [&](const comm::ProcessGroup& group) {
      const auto segments = qkv_segments(eight_heads_of_four(2), ranks);
      const Parameter parameter =
          make_parameter(context_of(group), "w", {48, 5}, mesh::Placement::shard(0, segments),
                         Init::kNormal, 0.02);
      const at::Tensor gathered = gather_full(parameter.local, parameter.placement, group);
      if (group.rank() == 0) full = gathered;
    });
    return full;
  };
  const at::Tensor whole = weight_on(1);
  EXPECT_NEAR(whole.std().item<double>(), 0.02, 0.003);
  for (const int ranks : {2, 4, 8}) EXPECT_TRUE(at::equal(weight_on(ranks), whole));
}

TEST(DropoutFactors, DependOnKeyAndStreamAndKeepTheMean) {
  const at::Tensor factors = dropout_factors(1, {0, 1}, 20'000, 0.25);
  EXPECT_NEAR(factors.mean().item<double>(), 1.0, 0.02);
  EXPECT_NEAR((factors == 0).to(at::kDouble).mean().item<double>(), 0.25, 0.01);
  EXPECT_FALSE(at::equal(factors[0], factors[1]));
  EXPECT_TRUE(at::equal(dropout_factors(1, {1}, 20'000, 0.25)[0], factors[1]));
  EXPECT_FALSE(at::equal(dropout_factors(2, {1}, 20'000, 0.25)[0], factors[1]));
}

TEST(GradientReducer, NormCountsEveryNumberOnceAndClipsLikePyTorch) {
  for (const int ranks : {1, 2, 4, 8}) {
    comm::run_local(
        ranks,
        [&](const comm::ProcessGroup& group) {
          const Parameter cut =
              make_parameter(context_of(group), "w", {48, 5},
                             mesh::Placement::shard(0, qkv_segments(eight_heads_of_four(2), ranks)),
                             Init::kNormal, 1.0);
          const Parameter whole = make_parameter(context_of(group), "b", {7},
                                                 mesh::Placement::replicate(), Init::kOnes);
          for (const Parameter& parameter : {cut, whole})
            parameter.local.mutable_grad() = parameter.local.detach().clone();
          const train::GradientReducer reducer({cut, whole}, group, comm::ProcessGroup());
          const at::Tensor full =
              make_parameter({comm::ProcessGroup(), 11, at::kDouble, at::kDouble}, "w", {48, 5},
                             mesh::Placement::replicate(), Init::kNormal, 1.0)
                  .local;
          const double expected = std::sqrt(full.detach().square().sum().item<double>() + 7.0);
          EXPECT_NEAR(reducer.norm(), expected, 1e-12 * expected);
          reducer.clip(expected, 0.5 * expected);
          EXPECT_NEAR(reducer.norm(), 0.5 * expected, 1e-6);
        });
  }
}

}  // namespace
}  // namespace tt::nn
