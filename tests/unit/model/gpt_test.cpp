#include "tensor_tracer/model/gpt.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "tensor_tracer/comm/world.h"
#include "tensor_tracer/graph/program.h"
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
  config.normalization = "RMSNorm";
  config.position_embedding_type = "rope";
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
    EXPECT_EQ(one.is_derived(), other.is_derived()) << one.name;
    EXPECT_EQ(one.in_programs, other.in_programs) << one.name;
    EXPECT_EQ(one.has_program_gradient(), other.has_program_gradient()) << one.name;
  }
}

TEST(Places, OfEverySubmoduleAreItsInputAndOutput) {
  const graph::Model model{describe_model(llama(), 2).places()};
  const auto place_of = [&](const std::string& path) {
    const auto program = graph::parse_program("save(" + path + ", \"x\")", model);
    return program.ok() ? to_string(program.value().values[0].leaves.at(0).place)
                        : program.error().message;
  };
  const std::pair<const char*, const char*> aliases[] = {
      {"embedding.input", "tokens"},
      {"embedding.word_embeddings.input", "tokens"},
      {"embedding.word_embeddings.output", "embedding.output"},
      {"layers[2].input_norm.input", "layers[1].output"},
      {"layers[1].input_norm.input", "embedding.output"},
      {"layers[2].input_norm.output", "layers[2].attention.input"},
      {"layers[2].attention.qkv.input", "layers[2].attention.input"},
      {"layers[2].attention.qkv.output", "layers[2].attention.qkv"},
      {"layers[2].attention.proj.input", "layers[2].attention.context"},
      {"layers[2].attention.proj.output", "layers[2].attention.output"},
      {"layers[2].mlp_norm.input", "layers[2].mid"},
      {"layers[2].mlp_norm.output", "layers[2].mlp.input"},
      {"layers[2].mlp.fc1.input", "layers[2].mlp.input"},
      {"layers[2].mlp.fc1.output", "layers[2].mlp.fc1"},
      {"layers[2].mlp.fc2.input", "layers[2].mlp.activation"},
      {"layers[2].mlp.fc2.output", "layers[2].mlp.output"},
      {"final_norm.input", "layers[3].output"},
      {"output_layer.input", "final_norm.output"},
      {"output_layer.output", "logits"},
  };
  for (const auto& [alias, path] : aliases) EXPECT_EQ(place_of(alias), path);
}

// The parameters name the modules: "layers.2.mlp.fc1.weight". The position embedding is added to
// the words': its place is its weight.
TEST(Places, OfEveryModuleWithParametersAreItsInputAndOutput) {
  for (const config::ModelConfig& config : {small(), llama()}) {
    const Gpt gpt = describe_model(config, 2);
    const graph::Model model{gpt.places()};
    int modules = 0;
    for (const nn::Parameter& parameter : gpt.parameters()) {
      std::string module = parameter.name.substr(0, parameter.name.rfind('.'));
      if (module == "embedding.position_embeddings") continue;
      if (module.starts_with("layers."))
        module = "layers[" + module.substr(7, 1) + "]" + module.substr(8);
      for (const char* side : {".input", ".output"}) {
        const std::string path = module + side;
        EXPECT_TRUE(graph::parse_program("save(" + path + ", \"x\")", model).ok()) << path;
      }
      ++modules;
    }
    EXPECT_GT(modules, 6 * config.num_layers);
  }
}

}  // namespace
}  // namespace tt::model
