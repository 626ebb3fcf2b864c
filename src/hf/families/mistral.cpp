#include "src/hf/family.h"

namespace tt::hf {
namespace {

base::Status read_mistral(ConfigReader& config, config::ModelConfig& model) {
  auto status = read_llama_like(config, model);
  if (!status) return status;
  config.need("num_key_value_heads", model.num_query_groups);
  return refuse_short_window(config, model);
}

}  // namespace

const Family& mistral() {
  // A model that began here is a Llama.
  static const Family family{
      "mistral",
      "MistralForCausalLM",
      "model.",
      read_mistral,
      [](const config::ModelConfig&) { return std::optional<nlohmann::json>(); },
      llama_names()};
  return family;
}

}  // namespace tt::hf
