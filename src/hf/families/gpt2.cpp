#include <map>

#include "src/hf/family.h"

namespace tt::hf {
namespace {

using config::ModelConfig;
using nlohmann::json;

// Their names of our activations.
const std::map<std::string, std::string> kActivations = {
    {"gelu_new", "gelu_tanh"}, {"gelu_pytorch_tanh", "gelu_tanh"},
    {"gelu", "gelu"},          {"relu", "relu"},
    {"silu", "silu"},          {"swish", "silu"}};

base::Status read_gpt2(ConfigReader& config, ModelConfig& model) {
  model.vocab_size = 50257;
  model.max_position_embeddings = 1024;
  config.read("vocab_size", model.vocab_size);
  config.read("n_positions", model.max_position_embeddings);
  config.need("n_embd", model.hidden_size);
  config.need("n_layer", model.num_layers);
  config.need("n_head", model.num_attention_heads);
  model.ffn_hidden_size = 4 * model.hidden_size;
  config.read("n_inner", model.ffn_hidden_size);
  model.norm_epsilon = 1e-5;
  config.read("layer_norm_epsilon", model.norm_epsilon);
  std::string activation = "gelu_new";
  config.read("activation_function", activation);
  if (const auto known = kActivations.find(activation); known != kActivations.end())
    model.activation = known->second;
  else
    config.refuse("activation_function", shown(activation) + " is not one that GPT-2 has here");
  bool tied = true;
  config.read("tie_word_embeddings", tied);
  model.untie_embeddings_and_output_weights = !tied;
  config.allow("scale_attn_weights", {true});
  config.allow("scale_attn_by_inverse_layer_idx", {false});
  config.allow("add_cross_attention", {false});
  model.num_query_groups = model.kv_channels = 0;
  model.normalization = "LayerNorm";
  model.position_embedding_type = "learned_absolute";
  model.swiglu = model.qk_layernorm = model.disable_bias_linear = false;
  return config.status();
}

std::optional<json> write_gpt2(const ModelConfig& model) {
  const bool has_biases = model.has_qkv_bias() && model.has_proj_bias() && model.has_mlp_bias();
  if (model.normalization != "LayerNorm" || model.position_embedding_type != "learned_absolute" ||
      model.swiglu || model.qk_layernorm || !has_biases ||
      model.query_groups() != model.num_attention_heads ||
      model.head_size() * model.num_attention_heads != model.hidden_size)
    return std::nullopt;
  const std::string activation = model.activation == "gelu_tanh" ? "gelu_new" : model.activation;
  return json{{"vocab_size", model.vocab_size},
              {"n_positions", model.max_positions()},
              {"n_embd", model.hidden_size},
              {"n_layer", model.num_layers},
              {"n_head", model.num_attention_heads},
              {"n_inner", model.ffn_size()},
              {"layer_norm_epsilon", model.norm_epsilon},
              {"activation_function", activation},
              {"attn_pdrop", model.attention_dropout},
              {"resid_pdrop", model.hidden_dropout},
              {"embd_pdrop", 0.0}};
}

std::vector<NameRow> gpt2_names() {
  return {{"embedding.word_embeddings", {"transformer.wte"}},
          {"embedding.position_embeddings", {"transformer.wpe"}},
          {"layers.#.input_norm", {"transformer.h.#.ln_1"}},
          {"layers.#.attention.qkv", {"transformer.h.#.attn.c_attn"}, true},
          {"layers.#.attention.proj", {"transformer.h.#.attn.c_proj"}, true},
          {"layers.#.mlp_norm", {"transformer.h.#.ln_2"}},
          {"layers.#.mlp.fc1", {"transformer.h.#.mlp.c_fc"}, true},
          {"layers.#.mlp.fc2", {"transformer.h.#.mlp.c_proj"}, true},
          {"final_norm", {"transformer.ln_f"}},
          {"output_layer", {"lm_head"}}};
}

}  // namespace

const Family& gpt2() {
  static const Family family{"gpt2",    "GPT2LMHeadModel", "transformer.",
                             read_gpt2, write_gpt2,        gpt2_names()};
  return family;
}

}  // namespace tt::hf
