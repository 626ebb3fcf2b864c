// Sharded equals unsharded, output and every gradient, for each parallel layer. A collective left
// out of the forward or backward pass, a shard cut at the wrong place or a bias added once per rank
// shows here. Sums that cross ranks are compared within 1e-12, all else is exact.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "tensor_tracer/base/hash.h"
#include "tensor_tracer/comm/shards.h"
#include "tensor_tracer/comm/world.h"
#include "tensor_tracer/nn/attention.h"
#include "tensor_tracer/nn/cross_entropy.h"
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

// Loss and gradients of 12 tokens; `whole`: through the whole logits.
LayerRun loss_of(std::int64_t chunk_size, bool whole, double start = 1.0) {
  return [=](const BuildContext& context) {
    constexpr std::int64_t kTokens = 12, kVocabulary = 13, kHidden = 6;
    const auto placement = mesh::Placement::shard(0, {{kVocabulary, context.tensor.size()}});
    const at::Tensor x =
        fixed_noise("x", {kTokens, kHidden}).to(context.compute_dtype).set_requires_grad(true);
    const at::Tensor weight =
        comm::take_shard(fixed_noise("weight", {kVocabulary, kHidden}) * 10, placement,
                         context.tensor.rank(), context.tensor.size())
            .to(context.compute_dtype)
            .set_requires_grad(true);
    const at::Tensor labels = at::arange(kTokens, at::kLong);
    const VocabularyShard shard{context.tensor, first_local_token(kVocabulary, context.tensor),
                                chunk_size};
    const at::Tensor loss =
        whole ? vocab_parallel_cross_entropy(output_logits(x, weight, shard), labels, shard)
              : linear_cross_entropy(x, weight, labels, shard, start);
    loss.backward(at::full_like(loss, 1.0 / 3));
    return Results{{"loss", loss.detach()},
                   {"x.grad", x.grad()},
                   {"weight.grad", gather_full(weight.grad(), placement, context.tensor)}};
  };
}

TEST(CrossEntropy, EqualsPyTorchsInChunksOnEveryAxis) {
  const at::Tensor x = fixed_noise("x", {12, 6}).set_requires_grad(true);
  const at::Tensor weight = (fixed_noise("weight", {13, 6}) * 10).set_requires_grad(true);
  const at::Tensor expected =
      at::cross_entropy_loss(at::linear(x, weight), at::arange(12, at::kLong));
  expected.backward(at::full_like(expected, 1.0 / 3));
  for (const bool whole : {false, true}) {
    for (const std::int64_t chunk_size : {1, 5, 12, 40}) {
      for (const int ranks : {1, 2, 4}) {
        const Results found = run_on(ranks, loss_of(chunk_size, whole));
        EXPECT_NEAR(found.at("loss").item<double>(), expected.item<double>(), 1e-12);
        EXPECT_TRUE(at::allclose(found.at("x.grad"), x.grad(), 1e-11, 1e-13));
        EXPECT_TRUE(at::allclose(found.at("weight.grad"), weight.grad(), 1e-11, 1e-13));
      }
    }
  }
}

// Whether anybody needs the whole logits must not change a bit.
TEST(CrossEntropy, HasTheSameBitsThroughTheWholeLogits) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
    for (const std::int64_t chunk_size : {1, 5, 12, 40}) {
      const auto run = [&](bool whole) {
        return run_on(2, [&](BuildContext context) {
          context.compute_dtype = dtype;
          return loss_of(chunk_size, whole, /*start=*/1.0 / 3)(context);
        });
      };
      const Results whole = run(true);
      for (const auto& [name, value] : run(false))
        EXPECT_TRUE(at::equal(value, whole.at(name))) << name << " " << dtype << " " << chunk_size;
    }
  }
}

TEST(CrossEntropy, ComputesOnlyTheGradientsThatAreNeeded) {
  const comm::ProcessGroup alone;
  const VocabularyShard shard{alone, 0, 5};
  const at::Tensor labels = at::arange(12, at::kLong);
  for (const bool trains_weight : {true, false}) {
    const at::Tensor x = fixed_noise("x", {12, 6}).set_requires_grad(!trains_weight);
    const at::Tensor weight = fixed_noise("weight", {13, 6}).set_requires_grad(trains_weight);
    linear_cross_entropy(x, weight, labels, shard, 1.0).backward();
    EXPECT_EQ(x.grad().defined(), !trains_weight);
    EXPECT_EQ(weight.grad().defined(), trains_weight);
  }
  const at::NoGradGuard no_grad;
  const at::Tensor x = fixed_noise("x", {12, 6}).set_requires_grad(true);
  EXPECT_FALSE(linear_cross_entropy(x, x, labels, shard, 1.0).requires_grad());
}

TEST(CrossEntropy, ShowsTheLogitsOfEveryChunk) {
  const comm::ProcessGroup alone;
  const at::Tensor x = fixed_noise("x", {12, 6}).set_requires_grad(true);
  const at::Tensor weight = fixed_noise("weight", {13, 6}), expected = at::linear(x, weight);
  for (const std::int64_t chunk_size : {1, 5, 40}) {
    at::Tensor seen = at::empty_like(expected);
    const auto read = [&](std::int64_t first, const at::Tensor& logits) {
      EXPECT_EQ(logits.size(0), std::min(chunk_size, 12 - first));
      seen.narrow(0, first, logits.size(0)).copy_(logits);
    };
    linear_cross_entropy(x, weight, at::arange(12, at::kLong), {alone, 0, chunk_size}, 1.0, {},
                         read);
    EXPECT_TRUE(at::allclose(seen, expected, 1e-12, 1e-14)) << chunk_size;
  }
}

/// Counts the bytes of the largest tensor while it lives.
class LargestTensor : public c10::Allocator {
 public:
  LargestTensor() : former_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, kPriority); }
  ~LargestTensor() override { c10::SetCPUAllocator(former_, kPriority); }
  std::size_t bytes() const { return bytes_; }

  c10::DataPtr allocate(std::size_t bytes) override {
    bytes_ = std::max(bytes_, bytes);
    return former_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return former_->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    former_->copy_data(to, from, bytes);
  }

 private:
  static constexpr std::uint8_t kPriority = 100;  // a smaller one than before has no effect
  c10::Allocator* former_;
  std::size_t bytes_ = 0;
};

TEST(CrossEntropy, NeverHoldsTheWholeLogits) {
  constexpr std::int64_t kTokens = 96, kVocabulary = 512, kChunk = 16;
  const comm::ProcessGroup alone;
  const VocabularyShard shard{alone, 0, kChunk};
  const at::Tensor labels = at::arange(kTokens, at::kLong);
  const at::Tensor x = fixed_noise("x", {kTokens, 4}).set_requires_grad(true);
  const at::Tensor weight = fixed_noise("weight", {kVocabulary, 4}).set_requires_grad(true);
  const auto largest_of = [&](const std::function<at::Tensor()>& loss) {
    const LargestTensor largest;
    loss().backward();
    return largest.bytes();
  };
  EXPECT_EQ(largest_of([&] { return linear_cross_entropy(x, weight, labels, shard, 1.0); }),
            kChunk * kVocabulary * sizeof(double));
  EXPECT_EQ(largest_of([&] {
              return vocab_parallel_cross_entropy(output_logits(x, weight, shard), labels, shard);
            }),
            kTokens * kVocabulary * sizeof(double));
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
