#include "tensor_tracer/hf/adapter.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

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

std::string path_of(const TargetRow& row, std::int64_t layer) {
  return "layers." + std::to_string(layer) + "." + row.layer;
}

// The words of target_modules that name no module, and by target the number of layers whose module
// is named.
struct Named {
  std::set<std::string> unknown;
  std::map<std::string, std::int64_t> layers;
};

// PEFT compares a word with the whole name of a module and with its ends after a dot, so "c_proj"
// of GPT-2 is attention's and the MLP's.
Named find_named(const json& config, const ModelConfig& model, const std::set<std::string>& words) {
  Named named{words, {}};
  for (std::int64_t layer = 1; layer <= model.num_layers; ++layer) {
    for (const TargetRow& row : kTargets) {
      const auto module = module_of(config, model, row, path_of(row, layer));
      if (!module) continue;
      bool is_named = false;
      for (std::size_t begin = 0; begin < module->size();) {
        const std::string word = module->substr(begin);
        if (words.contains(word)) is_named = true;
        named.unknown.erase(word);
        const std::size_t dot = module->find('.', begin);
        begin = dot == std::string::npos ? module->size() : dot + 1;
      }
      if (is_named) ++named.layers[row.target];
    }
  }
  return named;
}

void read_targets(const json& config, ConfigReader& reader, ModelConfig& model) {
  const json words = reader.config().value("target_modules", json());
  if (!words.is_array() || words.empty())
    return reader.refuse("target_modules", "is not a list of modules");
  std::set<std::string> names;
  for (const json& word : words) {
    if (!word.is_string())
      return reader.refuse("target_modules", shown(word) + " is no layer of the model");
    names.insert(word.get<std::string>());
  }
  const Named named = find_named(config, model, names);
  for (const std::string& word : named.unknown)
    reader.refuse("target_modules", shown(word) + " is no layer of the model");
  model.lora_target_modules.clear();
  for (const auto& [target, layers] : named.layers) {
    model.lora_target_modules.push_back(target);
    if (layers < model.num_layers) {
      reader.refuse("target_modules", "names the module of " + target + " in " +
                                          std::to_string(layers) + " of " +
                                          std::to_string(model.num_layers) +
                                          " layers; this program adapts it in all layers");
    }
  }
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
  read_targets(config, reader, model);
  return reader.status();
}

base::Result<json> make_adapter_config(const json& config, const ModelConfig& model,
                                       const std::string& base) {
  std::vector<std::string> words;
  for (const TargetRow& row : kTargets) {
    const std::string target = row.target;
    if (std::ranges::find(model.lora_target_modules, target) == model.lora_target_modules.end())
      continue;
    const auto module = module_of(config, model, row, path_of(row, 1));
    if (!module) {
      return base::invalid_argument(
          "--save-adapter", "the family has no module for " + target + " of --lora-target-modules",
          row.is_whole ? "name its parts" : "name the whole layer");
    }
    // "attn.c_proj" and "mlp.c_proj" of GPT-2 differ only in the word before.
    const bool is_shared = find_named(config, model, {last_word(*module)}).layers.size() > 1;
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
