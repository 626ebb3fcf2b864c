#include "tensor_tracer/model/gpt.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tensor_tracer/comm/world.h"
#include "tests/unit/graph/gpt_places.h"

namespace tt::model {
namespace {

config::ModelConfig small() {
  config::ModelConfig config;
  config.num_layers = 3;
  config.hidden_size = 16;
  config.seq_length = 8;
  return config;
}

config::ModelConfig llama() {
  config::ModelConfig config = small();
  config.num_query_groups = 2;
  config.ffn_hidden_size = 40;
  config.normalization = config::Normalization::kRmsNorm;
  config.position_embedding_type = config::PositionEmbedding::kRope;
  config.swiglu = config.disable_bias_linear = true;
  config.untie_embeddings_and_output_weights = true;
  return config;
}

TEST(Gpt, NumParametersIsWhatTheLayersHold) {
  for (const auto& config : {small(), llama()}) {
    const Gpt gpt({comm::ProcessGroup(), 1, at::kFloat, at::kFloat}, config);
    std::int64_t held = 0;
    std::set<std::string> names;
    for (const nn::Parameter& parameter : gpt.parameters()) {
      held += parameter.local.numel();
      names.insert(parameter.name);
    }
    EXPECT_EQ(num_parameters(config), held);
    EXPECT_EQ(names.size(), gpt.parameters().size()) << "a name is used twice";
  }
}

TEST(Places, EveryPointHasAPlacementThatFitsItsFeatures) {
  for (const auto& config : {small(), llama()}) {
    for (const int ranks : {1, 2, 4}) {
      const auto places = describe_model(config, ranks).places();
      for (const auto& point : places->rows()) {
        if (!point.traceable()) continue;
        EXPECT_FALSE(point.text.empty());
        if (point.placement.kind == mesh::Placement::Kind::kReplicate) continue;
        const bool by_heads = point.dims.size() == 4;
        const std::int64_t size = by_heads ? config.num_attention_heads : point.features;
        std::int64_t owned = 0;
        for (const auto& at : mesh::owned_intervals(point.placement, ranks, size)) {
          EXPECT_EQ(at.begin, owned) << point.name;
          owned = at.end;
        }
        EXPECT_EQ(owned, size) << point.name;
      }
    }
  }
}

TEST(Places, AreThoseOfTheTestsWithoutLibtorch) {
  const auto made_up = graph::gpt_places(3);
  const auto places = describe_model(small(), 2).places();
  ASSERT_EQ(places->rows().size(), made_up->rows().size());
  for (std::size_t i = 0; i < places->rows().size(); ++i) {
    const points::Place& one = places->rows()[i];
    const points::Place& other = made_up->rows()[i];
    EXPECT_EQ(one.name, other.name);
    EXPECT_EQ(one.path, other.path);
    EXPECT_EQ(one.number, other.number) << one.name;
    EXPECT_EQ(one.last_layer, other.last_layer) << one.name;
    EXPECT_EQ(one.is_weight, other.is_weight) << one.name;
    EXPECT_EQ(one.writable, other.writable) << one.name;
    EXPECT_EQ(one.has_heads, other.has_heads) << one.name;
    EXPECT_EQ(one.has_program_gradient(), other.has_program_gradient()) << one.name;
  }
}

}  // namespace
}  // namespace tt::model
