#include "src/hf/family.h"

namespace tt::hf {
namespace {

using config::ModelConfig;
using nlohmann::json;

base::Status read_qwen2(ConfigReader& config, ModelConfig& model) {
  auto status = read_llama_like(config, model);
  if (!status) return status;
  config.need("num_key_value_heads", model.num_query_groups);
  model.add_qkv_bias = true;
  return refuse_used_window(config, model);
}

std::optional<json> write_qwen2(const ModelConfig& model) {
  if (!is_llama_like(model) || model.qk_layernorm || !model.has_qkv_bias() ||
      model.has_proj_bias() || model.has_mlp_bias())
    return std::nullopt;
  return write_llama_like(model);
}

}  // namespace

const Family& qwen2() {
  static const Family family{"qwen2",    "Qwen2ForCausalLM", "model.",
                             read_qwen2, write_qwen2,        llama_names()};
  return family;
}

}  // namespace tt::hf
