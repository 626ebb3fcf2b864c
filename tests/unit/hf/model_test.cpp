#include "tensor_tracer/hf/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace tt::hf {
namespace {

using config::ModelConfig;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

json llama_config() {
  return {{"model_type", "llama"},   {"vocab_size", 320},        {"hidden_size", 48},
          {"num_hidden_layers", 2},  {"num_attention_heads", 4}, {"num_key_value_heads", 2},
          {"intermediate_size", 88}, {"rope_theta", 500.0}};
}

json changed(const char* type, const json& changes) {
  json config = llama_config();
  config["model_type"] = type;
  config.merge_patch(changes);
  return config;
}

TEST(HfModel, ReadsWhatConfigJsonDecides) {
  ModelConfig model;
  model.seq_length = 100;
  model.hidden_dropout = 0.25;
  model.max_position_embeddings = 7;
  const json config = changed("llama", {{"rms_norm_eps", 1e-3},
                                        {"head_dim", 16},
                                        {"tie_word_embeddings", true},
                                        {"mlp_bias", true},
                                        {"rope_scaling",
                                         {{"rope_type", "llama3"},
                                          {"factor", 32},
                                          {"low_freq_factor", 2},
                                          {"high_freq_factor", 8},
                                          {"original_max_position_embeddings", 1000}}}});
  ASSERT_TRUE(apply_config(config, model));
  EXPECT_EQ(model.query_groups(), 2);
  EXPECT_EQ(model.head_size(), 16);
  EXPECT_EQ(model.ffn_size(), 88);
  EXPECT_EQ(model.norm_epsilon, 1e-3);
  EXPECT_EQ(model.rotary_base, 500.0);
  EXPECT_EQ(model.rope_scaling_factor, 32.0);
  EXPECT_EQ(model.rope_low_freq_factor, 2.0);
  EXPECT_EQ(model.rope_high_freq_factor, 8.0);
  EXPECT_EQ(model.rope_original_max_positions, 1000);
  EXPECT_FALSE(model.untie_embeddings_and_output_weights);
  EXPECT_TRUE(model.has_mlp_bias());
  EXPECT_FALSE(model.has_qkv_bias() || model.has_proj_bias());
  EXPECT_EQ(model.seq_length, 100);
  EXPECT_EQ(model.max_positions(), 100);
  EXPECT_EQ(model.hidden_dropout, 0.25);
}

// transformers 5 writes rotary embedding as one object.
TEST(HfModel, ReadsRopeParameters) {
  ModelConfig model;
  json config =
      changed("qwen3", {{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e6}}}});
  config.erase("rope_theta");
  ASSERT_TRUE(apply_config(config, model));
  EXPECT_EQ(model.rotary_base, 1e6);
  EXPECT_EQ(model.head_size(), 128) << "the default of Qwen3";
  EXPECT_TRUE(model.qk_layernorm);
}

struct Refused {
  json config;
  std::string key;
};

TEST(HfModel, RefusesByKeyWhatItDoesNotCompute) {
  const json windows = {{"use_sliding_window", true}, {"sliding_window", 99}};
  const std::vector<Refused> all = {
      {changed("mixtral", json::object()), "model_type"},
      {changed("llama", {{"model_type", 3}}), "model_type"},
      {changed("llama", {{"quantization_config", {{"bits", 4}}}}), "quantization_config"},
      {changed("llama", {{"hidden_act", "gelu"}}), "hidden_act"},
      {changed("llama", {{"rope_scaling", {{"rope_type", "yarn"}}}}), "rope_type"},
      {changed("llama", {{"rope_scaling", {{"type", "linear"}, {"factor", 2}}}}), "rope_type"},
      {changed("llama", {{"rope_scaling", "llama3"}}), "rope_scaling"},
      {changed("llama", {{"partial_rotary_factor", 0.5}}), "partial_rotary_factor"},
      {changed("llama", {{"num_local_experts", 8}}), "num_local_experts"},
      {changed("llama", {{"hidden_size", nullptr}}), "hidden_size"},
      {changed("llama", {{"hidden_size", "48"}}), "hidden_size"},
      {changed("llama", {{"hidden_size", 0}}), "hidden_size"},
      {changed("llama", {{"hidden_size", 1e300}}), "hidden_size"},
      {changed("llama", {{"rms_norm_eps", -1}}), "rms_norm_eps"},
      {changed("llama", {{"tie_word_embeddings", 1}}), "tie_word_embeddings"},
      {changed("mistral", {{"sliding_window", 99}}), "sliding_window"},
      {changed("qwen2", windows), "sliding_window"},
      {changed("qwen3", windows), "sliding_window"},
      {changed("qwen2", {{"num_key_value_heads", nullptr}}), "num_key_value_heads"},
      {{{"model_type", "gpt2"}, {"n_embd", 48}, {"n_layer", 2}}, "n_head"},
      {{{"model_type", "gpt2"},
        {"n_embd", 48},
        {"n_layer", 2},
        {"n_head", 4},
        {"scale_attn_by_inverse_layer_idx", true}},
       "scale_attn_by_inverse_layer_idx"},
      {{{"model_type", "gpt2"},
        {"n_embd", 48},
        {"n_layer", 2},
        {"n_head", 4},
        {"activation_function", "mish"}},
       "activation_function"}};
  for (const Refused& one : all) {
    ModelConfig model;
    model.seq_length = 100;
    const auto status = apply_config(one.config, model);
    ASSERT_FALSE(status) << one.config;
    EXPECT_EQ(status.error().where, "config.json: " + one.key) << to_string(status.error());
  }
}

TEST(HfModel, AcceptsWindowsThatCutNothing) {
  json without = changed("mistral", json::object());
  without["sliding_window"] = nullptr;
  std::vector<json> configs;
  configs.push_back(without);
  configs.push_back(changed("mistral", {{"sliding_window", 100}}));
  configs.push_back(changed("qwen2", {{"sliding_window", 9}}));
  configs.push_back(changed("mistral", json::object()));
  for (const json& config : configs) {
    ModelConfig model;
    model.seq_length = 100;
    EXPECT_TRUE(apply_config(config, model)) << config;
  }
  // The default of Mistral is 4,096.
  ModelConfig model;
  model.seq_length = 5000;
  EXPECT_FALSE(apply_config(changed("mistral", json::object()), model));
}

TEST(HfModel, NamesTheTensorsOfAParameter) {
  const json config = llama_config();
  ModelConfig model;
  ASSERT_TRUE(apply_config(config, model));
  const Source qkv = source_of(config, model, "layers.2.attention.qkv.bias");
  EXPECT_THAT(qkv.tensors, ElementsAre("model.layers.1.self_attn.q_proj.bias",
                                       "model.layers.1.self_attn.k_proj.bias",
                                       "model.layers.1.self_attn.v_proj.bias"));
  EXPECT_THAT(qkv.sizes, ElementsAre(48, 24, 24));
  EXPECT_FALSE(qkv.transposed);
  EXPECT_THAT(source_of(config, model, "final_norm.weight").tensors,
              ElementsAre("model.norm.weight"));
  const json gpt2 = {{"model_type", "gpt2"}};
  const Source fc1 = source_of(gpt2, model, "layers.12.mlp.fc1.weight");
  EXPECT_THAT(fc1.tensors, ElementsAre("transformer.h.11.mlp.c_fc.weight"));
  EXPECT_TRUE(fc1.transposed);
  EXPECT_FALSE(source_of(gpt2, model, "layers.12.mlp.fc1.bias").transposed);
}

TEST(HfModel, KnowsTensorsThatNobodyNeeds) {
  const json tied = changed("llama", {{"tie_word_embeddings", true}});
  EXPECT_TRUE(is_needless(tied, "lm_head.weight"));
  EXPECT_FALSE(is_needless(llama_config(), "lm_head.weight"));
  EXPECT_TRUE(is_needless({{"model_type", "gpt2"}}, "lm_head.weight"));
  EXPECT_TRUE(is_needless({{"model_type", "gpt2"}}, "h.0.attn.bias"));
  EXPECT_FALSE(is_needless(llama_config(), "score.weight"));
}

TEST(HfModel, LimitsFiles) {
  const std::string folder = ::testing::TempDir() + "/hf_limits";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/model.safetensors") << "";
  std::ofstream(folder + "/config.json") << "{" << std::string(kMaxConfigBytes - 2, ' ') << "}";
  EXPECT_TRUE(read_model_folder(folder));
  std::ofstream(folder + "/config.json") << "{" << std::string(kMaxConfigBytes - 1, ' ') << "}";
  const auto refused = read_model_folder(folder);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().where, HasSubstr("config.json"));
  std::filesystem::remove(folder + "/model.safetensors");
  std::ofstream(folder + "/config.json") << "{}";
  const json map = {{"weight_map", {{"a", "model-1.safetensors"}}}};
  const std::string index = folder + "/model.safetensors.index.json";
  std::ofstream(index) << map << std::string(kMaxIndexBytes - map.dump().size(), ' ');
  ASSERT_TRUE(read_model_folder(folder));
  std::ofstream(index, std::ios::app) << " ";
  EXPECT_FALSE(read_model_folder(folder));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tt::hf
