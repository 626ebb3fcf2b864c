#include "tensor_tracer/hf/model.h"

#include <algorithm>
#include <array>

#include "src/hf/family.h"
#include "tensor_tracer/base/check.h"

namespace tt::hf {
namespace {

using config::ModelConfig;
using nlohmann::json;

constexpr std::int64_t kMaxLayers = 1024;

// In the order in which make_config() tries them.
const std::array<const Family*, 5>& families() {
  static const std::array<const Family*, 5> all = {&gpt2(), &llama(), &qwen2(), &qwen3(),
                                                   &mistral()};
  return all;
}

std::string type_of(const json& config) {
  const auto type = config.find("model_type");
  return type != config.end() && type->is_string() ? type->get<std::string>() : "";
}

const Family* find_family(const json& config) {
  const std::string type = type_of(config);
  const auto found = std::ranges::find_if(
      families(), [&](const Family* family) { return family->model_type == type; });
  return found == families().end() ? nullptr : *found;
}

const Family& family_of(const json& config) {
  const Family* const family = find_family(config);
  TT_CHECK(family != nullptr, "the family of config.json was not checked");
  return *family;
}

// A name with the number of its layer replaced by '#'.
struct Pattern {
  std::string text;
  int layer = 0;  // 0: no layer
};

Pattern pattern_of(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  if (!name.starts_with(kLayers)) return {std::string(name)};
  const std::size_t end = name.find('.', kLayers.size());
  const std::string number(name.substr(kLayers.size(), end - kLayers.size()));
  return {std::string(kLayers) + "#" + std::string(name.substr(end)), std::stoi(number)};
}

std::string with_layer(std::string text, int layer) {
  if (const std::size_t at = text.find('#'); at != std::string::npos)
    text.replace(at, 1, std::to_string(layer - 1));
  return text;
}

// The sizes of the parts that other programs keep as separate tensors.
std::vector<std::int64_t> sizes_of(const std::string& module, const ModelConfig& model) {
  const std::int64_t keys = model.query_groups() * model.head_size();
  if (module.ends_with("qkv")) return {model.num_attention_heads * model.head_size(), keys, keys};
  return {model.ffn_size(), model.ffn_size()};
}

}  // namespace

base::Status apply_config(const json& config, ModelConfig& model) {
  ConfigReader reader(config);
  const Family* const family = find_family(config);
  if (family == nullptr) {
    std::string known;
    for (const Family* one : families())
      known += (known.empty() ? "" : ", ") + std::string(one->model_type);
    reader.refuse("model_type",
                  shown(type_of(config)) + " is not a family that is known here: " + known);
  }
  if (reader.has("quantization_config"))
    reader.refuse("quantization_config", "weights that are quantized cannot be trained here");
  if (!reader.status()) return reader.status();
  if (auto status = family->read(reader, model); !status) return status;
  if (model.num_layers > kMaxLayers)
    reader.refuse("num_hidden_layers", "is more than " + std::to_string(kMaxLayers));
  return reader.status();
}

Source source_of(const json& config, const ModelConfig& model, std::string_view name) {
  const Family& family = family_of(config);
  const Pattern pattern = pattern_of(name);
  const std::size_t dot = pattern.text.rfind('.');
  const std::string module = pattern.text.substr(0, dot);
  const std::string kind = pattern.text.substr(dot);  // ".weight" or ".bias"
  const auto row =
      std::ranges::find_if(family.names, [&](const NameRow& one) { return one.ours == module; });
  TT_CHECK(row != family.names.end(), "no family's name for " + std::string(name));
  Source source;
  for (const char* theirs : row->theirs)
    source.tensors.push_back(with_layer(theirs, pattern.layer) + kind);
  if (source.tensors.size() > 1) source.sizes = sizes_of(module, model);
  source.transposed = row->transposed && kind == ".weight";
  return source;
}

bool is_needless(const json& config, std::string_view tensor) {
  const json tied = config.value("tie_word_embeddings", json());
  const bool is_tied = tied.is_boolean() ? tied.get<bool>() : type_of(config) == "gpt2";
  // Causal masks of GPT-2, and rotary frequencies.
  return tensor.ends_with(".attn.bias") || tensor.ends_with(".attn.masked_bias") ||
         tensor.ends_with(".rotary_emb.inv_freq") || (is_tied && tensor == "lm_head.weight");
}

std::string prefix_of(const json& config) { return family_of(config).prefix; }

base::Result<json> make_config(const ModelConfig& model) {
  for (const Family* family : families()) {
    auto config = family->write(model);
    if (!config) continue;
    (*config)["model_type"] = family->model_type;
    (*config)["architectures"] = {family->architecture};
    (*config)["tie_word_embeddings"] = !model.untie_embeddings_and_output_weights;
    (*config)["initializer_range"] = model.init_method_std;
    return *config;
  }
  return base::Error{"invalid_argument",
                     "no family of transformers that is known here has such a model: GPT-2 has "
                     "LayerNorm, learned positions and biases; Llama has RMSNorm, rope and SwiGLU",
                     "--save-hf", "change the options of the model, or use --save"};
}

}  // namespace tt::hf
