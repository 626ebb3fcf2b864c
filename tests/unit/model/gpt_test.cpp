#include "tensor_tracer/model/gpt.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tensor_tracer/comm/world.h"
#include "tensor_tracer/model/points.h"

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

TEST(Catalogue, EveryPointHasAPlacementThatFitsItsFeatures) {
  for (const auto& config : {small(), llama()}) {
    for (const int ranks : {1, 2, 4}) {
      const trace::Catalogue catalogue = make_catalogue(config, ranks);
      for (const auto& point : catalogue.points()) {
        EXPECT_FALSE(point.text.empty());
        if (point.tensor.kind == mesh::Placement::Kind::kReplicate) continue;
        const bool by_heads = point.flag == trace::PointFlag::kRawAttentionScore;
        const std::int64_t size = by_heads ? config.num_attention_heads : point.features;
        std::int64_t owned = 0;
        for (const auto& at : mesh::owned_intervals(point.tensor, ranks, size)) {
          EXPECT_EQ(at.begin, owned) << point.name;
          owned = at.end;
        }
        EXPECT_EQ(owned, size) << point.name;
      }
    }
  }
}

}  // namespace
}  // namespace tt::model
