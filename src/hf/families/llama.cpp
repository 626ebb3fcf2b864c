#include "src/hf/family.h"

namespace tt::hf {
namespace {

using config::ModelConfig;
using nlohmann::json;

// The object that describes rotary embedding: "rope_parameters" of transformers 5, which holds the
// base too, or the older "rope_scaling".
const json& rope_of(const ConfigReader& config) {
  static const json none = json::object();
  for (const char* key : {"rope_parameters", "rope_scaling"})
    if (config.has(key)) return config.config().at(key);
  return none;
}

base::Status read_rope(ConfigReader& config, ModelConfig& model) {
  model.position_embedding_type = "rope";
  model.rotary_base = 10000.0;
  config.read("rope_theta", model.rotary_base);
  const json& rope = rope_of(config);
  if (!rope.is_object()) config.refuse("rope_scaling", "is not an object");
  if (!config.status()) return config.status();
  ConfigReader inner(rope);
  inner.read("rope_theta", model.rotary_base);
  std::string type = "default";
  inner.read("type", type);
  inner.read("rope_type", type);
  model.rope_scaling_factor = 1.0;
  if (type == "llama3") {
    model.rope_low_freq_factor = 1.0;
    model.rope_high_freq_factor = 4.0;
    model.rope_original_max_positions = 8192;
    inner.read("factor", model.rope_scaling_factor);
    inner.read("low_freq_factor", model.rope_low_freq_factor);
    inner.read("high_freq_factor", model.rope_high_freq_factor);
    inner.read("original_max_position_embeddings", model.rope_original_max_positions);
  } else if (type != "default") {
    inner.refuse("rope_type",
                 "is " + shown(type) + "; this program computes \"default\" and \"llama3\"");
  }
  return inner.status();
}

base::Status read_llama(ConfigReader& config, ModelConfig& model) {
  auto status = read_llama_like(config, model);
  if (!status) return status;
  bool has_attention_bias = false;
  config.read("attention_bias", has_attention_bias);
  model.add_qkv_bias = model.add_proj_bias = has_attention_bias;
  config.read("mlp_bias", model.add_mlp_bias);
  return config.status();
}

std::optional<json> write_llama(const ModelConfig& model) {
  if (!is_llama_like(model) || model.qk_layernorm || model.has_qkv_bias() != model.has_proj_bias())
    return std::nullopt;
  json config = write_llama_like(model);
  config["attention_bias"] = model.has_qkv_bias();
  config["mlp_bias"] = model.has_mlp_bias();
  return config;
}

}  // namespace

base::Status read_llama_like(ConfigReader& config, ModelConfig& model) {
  config.need("vocab_size", model.vocab_size);
  config.need("hidden_size", model.hidden_size);
  config.need("num_hidden_layers", model.num_layers);
  config.need("num_attention_heads", model.num_attention_heads);
  config.need("intermediate_size", model.ffn_hidden_size);
  model.num_query_groups = model.num_attention_heads;
  config.read("num_key_value_heads", model.num_query_groups);
  model.kv_channels = 0;
  config.read("head_dim", model.kv_channels);
  model.norm_epsilon = 1e-6;
  config.read("rms_norm_eps", model.norm_epsilon);
  bool tied = false;
  config.read("tie_word_embeddings", tied);
  model.untie_embeddings_and_output_weights = !tied;
  config.allow("hidden_act", {"silu", "swish"});
  config.allow("partial_rotary_factor", {1.0});
  config.allow("rope_interleaved", {false});
  for (const char* experts : {"num_experts", "num_local_experts", "n_routed_experts"})
    if (config.has(experts)) config.refuse(experts, "this program has no mixture of experts");
  model.normalization = "RMSNorm";
  model.swiglu = model.disable_bias_linear = true;
  model.qk_layernorm = model.add_qkv_bias = model.add_proj_bias = model.add_mlp_bias = false;
  model.max_position_embeddings = 0;
  return read_rope(config, model);
}

base::Status refuse_short_window(ConfigReader& config, const ModelConfig& model) {
  constexpr std::int64_t kDefault = 4096;
  std::int64_t window = config.config().contains("sliding_window") ? model.seq_length : kDefault;
  config.read("sliding_window", window);
  if (window < model.seq_length) {
    config.refuse("sliding_window", "is " + std::to_string(window) +
                                        ", shorter than the sequences of --seq-length " +
                                        std::to_string(model.seq_length));
  }
  return config.status();
}

base::Status refuse_used_window(ConfigReader& config, const ModelConfig& model) {
  bool is_used = false;
  config.read("use_sliding_window", is_used);
  return is_used ? refuse_short_window(config, model) : config.status();
}

bool is_llama_like(const ModelConfig& model) {
  return model.normalization == "RMSNorm" && model.position_embedding_type == "rope" &&
         model.swiglu;
}

json write_llama_like(const ModelConfig& model) {
  json config = {{"vocab_size", model.vocab_size},
                 {"hidden_size", model.hidden_size},
                 {"num_hidden_layers", model.num_layers},
                 {"num_attention_heads", model.num_attention_heads},
                 {"num_key_value_heads", model.query_groups()},
                 {"head_dim", model.head_size()},
                 {"intermediate_size", model.ffn_size()},
                 {"rms_norm_eps", model.norm_epsilon},
                 {"hidden_act", "silu"},
                 {"max_position_embeddings", model.max_positions()},
                 {"rope_theta", model.rotary_base},
                 {"attention_dropout", model.attention_dropout}};
  if (model.rope_scaling_factor != 1.0) {
    config["rope_scaling"] = {
        {"rope_type", "llama3"},
        {"factor", model.rope_scaling_factor},
        {"low_freq_factor", model.rope_low_freq_factor},
        {"high_freq_factor", model.rope_high_freq_factor},
        {"original_max_position_embeddings", model.rope_original_max_positions}};
  }
  return config;
}

std::vector<NameRow> llama_names() {
  return {{"embedding.word_embeddings", {"model.embed_tokens"}},
          {"layers.#.input_norm", {"model.layers.#.input_layernorm"}},
          {"layers.#.attention.qkv",
           {"model.layers.#.self_attn.q_proj", "model.layers.#.self_attn.k_proj",
            "model.layers.#.self_attn.v_proj"}},
          {"layers.#.attention.query_norm", {"model.layers.#.self_attn.q_norm"}},
          {"layers.#.attention.key_norm", {"model.layers.#.self_attn.k_norm"}},
          {"layers.#.attention.proj", {"model.layers.#.self_attn.o_proj"}},
          {"layers.#.mlp_norm", {"model.layers.#.post_attention_layernorm"}},
          {"layers.#.mlp.fc1", {"model.layers.#.mlp.gate_proj", "model.layers.#.mlp.up_proj"}},
          {"layers.#.mlp.fc2", {"model.layers.#.mlp.down_proj"}},
          {"final_norm", {"model.norm"}},
          {"output_layer", {"lm_head"}}};
}

const Family& llama() {
  static const Family family{"llama",    "LlamaForCausalLM", "model.",
                             read_llama, write_llama,        llama_names()};
  return family;
}

}  // namespace tt::hf
