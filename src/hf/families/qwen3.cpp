#include "src/hf/family.h"

namespace tt::hf {
namespace {

using config::ModelConfig;
using nlohmann::json;

base::Status read_qwen3(ConfigReader& config, ModelConfig& model) {
  auto status = read_llama_like(config, model);
  if (!status) return status;
  config.need("num_key_value_heads", model.num_query_groups);
  if (!config.has("head_dim")) model.kv_channels = 128;
  bool has_attention_bias = false;
  config.read("attention_bias", has_attention_bias);
  model.add_qkv_bias = model.add_proj_bias = has_attention_bias;
  model.qk_layernorm = true;
  return refuse_used_window(config, model);
}

std::optional<json> write_qwen3(const ModelConfig& model) {
  if (!is_llama_like(model) || !model.qk_layernorm || model.has_mlp_bias() ||
      model.has_qkv_bias() != model.has_proj_bias())
    return std::nullopt;
  json config = write_llama_like(model);
  config["attention_bias"] = model.has_qkv_bias();
  return config;
}

}  // namespace

const Family& qwen3() {
  static const Family family{"qwen3",    "Qwen3ForCausalLM", "model.",
                             read_qwen3, write_qwen3,        llama_names()};
  return family;
}

}  // namespace tt::hf
