#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "src/hf/config_reader.h"
#include "tensor_tracer/base/result.h"
#include "tensor_tracer/config/train_config.h"

namespace tt::hf {

/// A layer of our model, and the modules of the family that hold its parameters. '#' is the number
/// of the transformer layer: ours count from 1, theirs from 0.
struct NameRow {
  const char* ours;
  std::vector<const char*> theirs;
  bool transposed = false;  // the weight, not the bias
};

/// A family of models.
struct Family {
  const char* model_type;    // in config.json
  const char* architecture;  // the class in transformers
  const char* prefix;        // of all modules but the output layer
  /// Sets the options that config.json decides.
  base::Status (*read)(ConfigReader& config, config::ModelConfig& model);
  /// The keys of config.json for the model; nullopt: the family has no such model.
  std::optional<nlohmann::json> (*write)(const config::ModelConfig& model);
  std::vector<NameRow> names;
};

const Family& gpt2();
const Family& llama();
const Family& mistral();
const Family& qwen2();
const Family& qwen3();

// --- For the families that are built like Llama --------------------------------------------------

/// The names of Llama's modules. Qwen3 has norms of queries and keys besides.
std::vector<NameRow> llama_names();

/// Reads the keys of Llama's config.json, without biases.
base::Status read_llama_like(ConfigReader& config, config::ModelConfig& model);

/// Refuses a sliding window that is shorter than the sequences.
base::Status refuse_short_window(ConfigReader& config, const config::ModelConfig& model);
/// The same, unless "use_sliding_window" is left out or false.
base::Status refuse_used_window(ConfigReader& config, const config::ModelConfig& model);

/// True for a model that is built like Llama, whatever its biases and norms of heads are.
bool is_llama_like(const config::ModelConfig& model);

/// The keys of such a model, without biases.
nlohmann::json write_llama_like(const config::ModelConfig& model);

}  // namespace tt::hf
