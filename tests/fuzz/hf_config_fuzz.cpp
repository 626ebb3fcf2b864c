// A config.json → a model whose parameters have names and sizes, or an error that can be shown;
// also for each family with the same keys.
#include <nlohmann/json.hpp>

#include "tensor_tracer/hf/model.h"
#include "tensor_tracer/protocol/message.h"
#include "tests/fuzz/error_check.h"

namespace {

using nlohmann::json;
using tt::fuzz::require;

constexpr const char* kFamilies[] = {"gpt2", "llama", "mistral", "qwen2", "qwen3"};
constexpr const char* kNames[] = {"embedding.word_embeddings.weight", "layers.1.input_norm.weight",
                                  "layers.1.attention.qkv.weight",    "layers.1.mlp.fc1.weight",
                                  "layers.1.mlp.fc2.weight",          "output_layer.weight"};

void check_model(const json& config) {
  tt::config::ModelConfig model;
  const auto status = tt::hf::apply_config(config, model);
  if (!status) return tt::fuzz::check_error(status.error());
  require(model.num_layers >= 1 && model.hidden_size >= 1 && model.vocab_size >= 1 &&
              model.num_attention_heads >= 1 && model.query_groups() >= 1 && model.ffn_size() >= 1,
          "sizes are above 0");
  for (const char* name : kNames) {
    const tt::hf::Source source = tt::hf::source_of(config, model, name);
    require(!source.tensors.empty(), "a parameter has a tensor");
    require(source.sizes.empty() || source.sizes.size() == source.tensors.size(),
            "each part has a size");
    for (const std::string& tensor : source.tensors)
      static_cast<void>(tt::hf::is_needless(config, tensor));
  }
  static_cast<void>(tt::hf::prefix_of(config));
  static_cast<void>(tt::hf::make_config(model));
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parsed = tt::protocol::parse_json(tt::fuzz::as_text(data, size));
  if (!parsed || !parsed.value().is_object()) return 0;
  json config = parsed.value();
  check_model(config);
  for (const char* family : kFamilies) {
    config["model_type"] = family;
    check_model(config);
  }
  return 0;
}
