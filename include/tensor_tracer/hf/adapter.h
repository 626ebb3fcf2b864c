#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/config/train_config.h"

/// Adapters in the form of PEFT: a folder with adapter_config.json and adapter_model.safetensors.
/// Thread: any.
namespace tt::hf {

/// The module that the adapter of `layer` ("layers.1.attention.qkv") for `target`, a value of
/// --lora-target-modules, changes: "model.layers.0.self_attn.q_proj". nullopt: the family has no
/// such module. `config`: config.json of the model.
std::optional<std::string> adapter_module(const nlohmann::json& config,
                                          const config::ModelConfig& model, std::string_view layer,
                                          const std::string& target);

/// The name of a matrix in adapter_model.safetensors. `matrix`: "lora_A" or "lora_B".
std::string adapter_tensor(const std::string& module, const std::string& matrix);

/// Sets --lora-rank, --lora-alpha and --lora-target-modules. `adapter`: adapter_config.json. Error:
/// it asks for what this program does not compute; `where` names the key.
base::Status apply_adapter_config(const nlohmann::json& adapter, const nlohmann::json& config,
                                  config::ModelConfig& model);

/// The adapter_config.json of the model's adapters. `base`: the folder of the model, may be empty.
/// Error: the family has no module for a target.
base::Result<nlohmann::json> make_adapter_config(const nlohmann::json& config,
                                                 const config::ModelConfig& model,
                                                 const std::string& base);

}  // namespace tt::hf
