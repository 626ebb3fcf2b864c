#include "tensor_tracer/hf/adapter.h"

#include <algorithm>
#include <array>

#include "src/hf/config_reader.h"
#include "tensor_tracer/hf/model.h"

namespace tt::hf {
namespace {

using config::ModelConfig;
using nlohmann::json;

// A target of adapters, its layer, and its place among the modules that a family keeps apart.
struct TargetRow {
  const char* target;
  const char* layer;  // in a transformer layer
  std::size_t part;
  bool is_whole;  // of all parts
};

constexpr std::array<TargetRow, 9> kTargets = {{{"query", "attention.qkv", 0, false},
                                                {"key", "attention.qkv", 1, false},
                                                {"value", "attention.qkv", 2, false},
                                                {"qkv", "attention.qkv", 0, true},
                                                {"proj", "attention.proj", 0, true},
                                                {"gate", "mlp.fc1", 0, false},
                                                {"up", "mlp.fc1", 1, false},
                                                {"fc1", "mlp.fc1", 0, true},
                                                {"fc2", "mlp.fc2", 0, true}}};

std::optional<std::string> module_of(const json& config, const ModelConfig& model,
                                     const TargetRow& row, std::string_view layer) {
  const Source source = source_of(config, model, std::string(layer) + ".weight");
  const bool is_one = source.tensors.size() == 1;
  if (row.is_whole != is_one) return std::nullopt;
  std::string name = source.tensors.at(row.part);
  name.resize(name.rfind('.'));
  return name;
}

std::string last_word(const std::string& module) { return module.substr(module.rfind('.') + 1); }

// PEFT finds modules by their last words, so "c_proj" of GPT-2 is attention's and the MLP's.
std::vector<std::string> targets_named(const json& config, const ModelConfig& model,
                                       const std::string& word) {
  std::vector<std::string> targets;
  for (const TargetRow& row : kTargets) {
    const auto module = module_of(config, model, row, std::string("layers.1.") + row.layer);
    const bool has_path = word.find('.') != std::string::npos;
    if (!module) continue;
    if (has_path ? module->ends_with("." + word) : last_word(*module) == word)
      targets.push_back(row.target);
  }
  return targets;
}

}  // namespace

std::optional<std::string> adapter_module(const json& config, const ModelConfig& model,
                                          std::string_view layer, const std::string& target) {
  const auto row =
      std::ranges::find_if(kTargets, [&](const TargetRow& one) { return target == one.target; });
  return row == kTargets.end() ? std::nullopt : module_of(config, model, *row, layer);
}

std::string adapter_tensor(const std::string& module, const std::string& matrix) {
  return "base_model.model." + module + "." + matrix + ".weight";
}

base::Status apply_adapter_config(const json& adapter, const json& config, ModelConfig& model) {
  ConfigReader reader(adapter, "adapter_config.json");
  reader.allow("peft_type", {"LORA"});
  reader.allow("bias", {"none"});
  for (const char* key : {"use_dora", "use_rslora", "use_qalora", "use_bdlora", "lora_bias"})
    reader.allow(key, {false});
  // Others change the weights of the model, too.
  reader.allow("init_lora_weights", {true, false, "gaussian"});
  for (const char* key : {"modules_to_save", "rank_pattern", "alpha_pattern", "exclude_modules",
                          "layers_to_transform", "layer_replication", "target_parameters",
                          "trainable_token_indices", "alora_invocation_tokens"})
    reader.allow(key, {json::object(), json::array()});
  reader.need("r", model.lora_rank);
  model.lora_alpha = 8.0;  // PEFT's default
  reader.read("lora_alpha", model.lora_alpha);
  model.lora_target_modules.clear();
  const json words = adapter.value("target_modules", json());
  if (!words.is_array() || words.empty())
    reader.refuse("target_modules", "is not a list of modules");
  for (const json& word : words.is_array() ? words : json::array()) {
    const auto targets =
        word.is_string() ? targets_named(config, model, word) : std::vector<std::string>();
    if (targets.empty()) reader.refuse("target_modules", shown(word) + " is no layer of the model");
    for (const std::string& target : targets) model.lora_target_modules.push_back(target);
  }
  // Two words may name the same module.
  std::ranges::sort(model.lora_target_modules);
  auto& targets = model.lora_target_modules;
  targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
  return reader.status();
}

base::Result<json> make_adapter_config(const json& config, const ModelConfig& model,
                                       const std::string& base) {
  std::vector<std::string> words;
  for (const TargetRow& row : kTargets) {
    const std::string target = row.target;
    if (std::ranges::find(model.lora_target_modules, target) == model.lora_target_modules.end())
      continue;
    const auto module = module_of(config, model, row, std::string("layers.1.") + row.layer);
    if (!module) {
      return base::invalid_argument(
          "--save-adapter", "the family has no module for " + target + " of --lora-target-modules",
          row.is_whole ? "name its parts" : "name the whole layer");
    }
    // "attn.c_proj" and "mlp.c_proj" of GPT-2 differ only in the word before.
    const bool is_shared = targets_named(config, model, last_word(*module)).size() > 1;
    const std::size_t layer = module->rfind('.', module->rfind('.') - 1);
    words.push_back(is_shared ? module->substr(layer + 1) : last_word(*module));
  }
  const bool is_transposed = source_of(config, model, "layers.1.mlp.fc2.weight").transposed;
  return json{{"peft_type", "LORA"},
              {"task_type", "CAUSAL_LM"},
              {"base_model_name_or_path", base},
              {"r", model.lora_rank},
              {"lora_alpha", model.lora_alpha},
              {"lora_dropout", 0.0},
              {"target_modules", words},
              {"fan_in_fan_out", is_transposed},
              {"bias", "none"},
              {"inference_mode", true}};
}

}  // namespace tt::hf
