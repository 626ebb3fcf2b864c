// An adapter_config.json of PEFT → adapters of layers that the model has, each once, or an error
// that can be shown; for a model with one module for a fused matrix, and for one with several.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tensor_tracer/hf/adapter.h"
#include "tensor_tracer/hf/model.h"
#include "tensor_tracer/protocol/message.h"
#include "tests/fuzz/error_check.h"

namespace {

using nlohmann::json;
using tt::fuzz::require;

void check_adapter(const json& adapter, const json& config) {
  tt::config::ModelConfig model;
  require(tt::hf::apply_config(config, model).ok(), "the model is known");
  const auto status = tt::hf::apply_adapter_config(adapter, config, model);
  if (!status) return tt::fuzz::check_error(status.error());
  const auto& targets = model.lora_target_modules;
  require(model.lora_rank >= 1 && !targets.empty(), "there are adapters");
  require(std::adjacent_find(targets.begin(), targets.end()) == targets.end(),
          "a layer is named once");
  const auto made = tt::hf::make_adapter_config(config, model, "");
  require(made.ok(), "adapters that were read can be written");
  tt::config::ModelConfig again = model;
  require(tt::hf::apply_adapter_config(made.value(), config, again).ok() &&
              again.lora_target_modules == targets && again.lora_rank == model.lora_rank,
          "and are read again");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parsed = tt::protocol::parse_json(tt::fuzz::as_text(data, size));
  if (!parsed || !parsed.value().is_object()) return 0;
  check_adapter(parsed.value(),
                {{"model_type", "gpt2"}, {"n_embd", 48}, {"n_layer", 2}, {"n_head", 4}});
  check_adapter(parsed.value(), {{"model_type", "llama"},
                                 {"vocab_size", 320},
                                 {"hidden_size", 48},
                                 {"num_hidden_layers", 2},
                                 {"num_attention_heads", 4},
                                 {"intermediate_size", 88}});
  return 0;
}
