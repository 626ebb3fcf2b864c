#include "src/cli/inspection.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "src/cli/run_tokenizer.h"
#include "src/cli/saved_run.h"
#include "tensor_tracer/hf/adapter.h"
#include "tensor_tracer/hf/model.h"
#include "tensor_tracer/protocol/json_members.h"

namespace tt::cli {
namespace {

namespace fs = std::filesystem;
using checkpoint::TensorTable;
using nlohmann::json;

constexpr std::string_view kOptimizer = "optimizer.";
constexpr const char* kEmbedding = "embedding.word_embeddings.weight";

const char* name_of(ModelKind kind) {
  switch (kind) {
    case ModelKind::kCheckpoint:
      return "checkpoint";
    case ModelKind::kHuggingFace:
      return "hugging_face";
    case ModelKind::kAdapter:
      return "adapter";
    default:
      return "safetensors";
  }
}

// --- Tensors -------------------------------------------------------------------------------------

std::uint64_t bytes_of(const TensorTable::Tensor& tensor) {
  std::uint64_t bytes = 0;
  for (const TensorTable::Part& part : tensor.parts) bytes += part.end - part.begin;
  return bytes;
}

// The parts cover the tensor, so the product is that of numbers in a file.
std::uint64_t count_of(const TensorTable::Tensor& tensor) {
  std::uint64_t count = 1;
  for (const std::int64_t extent : tensor.shape) count *= static_cast<std::uint64_t>(extent);
  return count;
}

// The tensors that are parameters, or the others.
json sum_of(const TensorTable& table, const ModelPath& model, bool are_parameters) {
  const bool is_hf = model.kind == ModelKind::kHuggingFace;
  std::uint64_t count = 0, bytes = 0;
  json by_dtype = json::object();
  for (const auto& [name, tensor] : table.tensors()) {
    const bool is_parameter =
        !name.starts_with(kOptimizer) && !(is_hf && hf::is_needless(model.config, name));
    if (is_parameter != are_parameters) continue;
    count += count_of(tensor);
    bytes += bytes_of(tensor);
    json& sum = by_dtype[checkpoint::torch_name_of_dtype(tensor.dtype)];
    if (sum.is_null()) sum = {{"count", 0}, {"bytes", 0}};
    sum["count"] = sum["count"].get<std::uint64_t>() + count_of(tensor);
    sum["bytes"] = sum["bytes"].get<std::uint64_t>() + bytes_of(tensor);
  }
  return {{"count", count}, {"bytes", bytes}, {"by_dtype", std::move(by_dtype)}};
}

// The name up to the number of its layer, and this number: "model.layers." and 3. nullopt: none.
std::optional<std::pair<std::string, std::uint64_t>> layer_of(const std::string& name) {
  std::size_t begin = 0;
  while (begin < name.size()) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string word = name.substr(begin, end - begin);
    const bool is_number =
        !word.empty() && word.size() < 10 &&
        std::ranges::all_of(word, [](unsigned char c) { return std::isdigit(c); });
    if (is_number && begin > 0) return std::pair{name.substr(0, begin), std::stoull(word)};
    begin = end + 1;
  }
  return std::nullopt;
}

json files_of(const TensorTable& table) {
  json files = json::array();
  for (const TensorTable::File& file : table.files())
    files.push_back({{"name", fs::path(file.path).filename().string()}, {"bytes", file.bytes}});
  return files;
}

// --- The model -----------------------------------------------------------------------------------

// The options that describe the model; those of a run only for a checkpoint.
json options_of(const config::ModelConfig& model, bool is_run) {
  json options = config::to_json(model);
  if (!is_run)
    for (const char* key : {"seq_length", "attention_dropout", "hidden_dropout", "init_method_std"})
      options.erase(key);
  if (model.lora_rank > 0) {
    options["lora_rank"] = model.lora_rank;
    options["lora_alpha"] = model.lora_alpha;
    options["lora_target_modules"] = model.lora_target_modules;
  }
  return options;
}

json tokenizer_in(const std::string& folder) {
  std::error_code error;
  const fs::path file = fs::path(folder) / "tokenizer.json";
  if (!fs::exists(file, error)) return nullptr;
  config::TrainConfig config;
  config.data.tokenizer = file.string();
  const auto read = read_tokenizer(config, json::object());
  if (!read) return {{"problem", to_string(read.error())}};
  const RunTokenizer& tokenizer = read.value();
  json facts = {{"type", "BPE"},
                {"size", tokenizer.file->vocab_size()},
                {"hash", tokenizer.hash},
                {"end_of_text", nullptr}};
  if (const auto id = tokenizer.end_of_text)
    facts["end_of_text"] = {{"id", *id}, {"token", tokenizer.file->token(*id)}};
  return facts;
}

json tied_pair(const std::string& copy, const std::string& weight) {
  return json::array({copy, weight});
}

json tied_in(const json& config, const config::ModelConfig& model) {
  const auto name = [&](const char* ours) {
    return hf::source_of(config, model, ours).tensors.front();
  };
  return json::array({tied_pair(name("output_layer.weight"), name(kEmbedding))});
}

void add_hf_facts(const ModelPath& model, json& facts) {
  const json& classes = protocol::member(model.config, "architectures");
  const bool has_class = classes.is_array() && !classes.empty() && classes.front().is_string();
  facts["family"] = protocol::text_of(model.config, "model_type");
  facts["architecture"] = has_class ? classes.front() : json();
  facts["tokenizer"] = tokenizer_in(model.folder);
  config::ModelConfig options;
  options.seq_length = 1;  // a folder has no length of sequences
  if (const auto status = hf::apply_config(model.config, options); !status) {
    facts["problem"] = to_string(status.error());
    return;
  }
  facts["model"] = options_of(options, false);
  if (!options.untie_embeddings_and_output_weights) facts["tied"] = tied_in(model.config, options);
}

void add_adapter_facts(const ModelPath& model, json& facts) {
  json& adapter = facts["adapter"] = json::object();
  using Names = std::initializer_list<std::pair<const char*, const char*>>;
  for (const auto& [ours, theirs] : Names{{"type", "peft_type"},
                                          {"base", "base_model_name_or_path"},
                                          {"rank", "r"},
                                          {"alpha", "lora_alpha"},
                                          {"target_modules", "target_modules"}})
    adapter[ours] = protocol::member(model.config, theirs);
}

void add_checkpoint_facts(const ModelPath& model, json& facts) {
  const checkpoint::Manifest& manifest = model.manifest;
  facts["checkpoint"] = {{"step", manifest.step},
                         {"time", manifest.time},
                         {"valid_loss", manifest.valid_loss ? json(*manifest.valid_loss) : json()},
                         {"older", model.older}};
  for (const char* key : {"run", "parent", "data", "mesh"})
    facts["checkpoint"][key] = protocol::member(manifest.facts, key);
  facts["tokenizer"] = protocol::member(manifest.facts, "tokenizer");
  const auto saved = options_of_checkpoint(model);
  if (!saved) {
    facts["problem"] = to_string(saved.error());
    return;
  }
  const config::ModelConfig& options = saved.value().model;
  facts["model"] = options_of(options, true);
  if (const auto config = hf::make_config(options); config) {
    facts["family"] = config.value().at("model_type");
    facts["architecture"] = config.value().at("architectures").front();
  }
  if (!options.untie_embeddings_and_output_weights)
    facts["tied"] = json::array({tied_pair("output_layer.weight", kEmbedding)});
}

}  // namespace

json list_tensors(const TensorTable& table) {
  // Tensors outside of the layers come first, then the layers by number.
  using Row = std::tuple<std::string, std::uint64_t, std::string>;
  std::vector<Row> rows;
  for (const auto& [name, tensor] : table.tensors()) {
    const auto layer = layer_of(name);
    rows.push_back(layer ? Row{layer->first, layer->second, name} : Row{"", 0, name});
  }
  std::ranges::sort(rows);
  json tensors = json::array();
  for (const auto& [prefix, number, name] : rows) {
    const TensorTable::Tensor& tensor = table.tensors().at(name);
    json files = json::array();
    for (const TensorTable::Part& part : tensor.parts)
      files.push_back(fs::path(table.files()[part.file].path).filename().string());
    tensors.push_back({{"name", name},
                       {"layer", prefix.empty() ? json() : json(prefix + std::to_string(number))},
                       {"shape", tensor.shape},
                       {"dtype", checkpoint::torch_name_of_dtype(tensor.dtype)},
                       {"files", std::move(files)}});
  }
  return tensors;
}

json inspect_model(const ModelPath& model, const TensorTable& table) {
  json facts = {{"kind", name_of(model.kind)},
                {"path", model.folder},
                {"files", files_of(table)},
                {"parameters", sum_of(table, model, true)},
                {"other_tensors", sum_of(table, model, false)}};
  for (const char* key :
       {"family", "architecture", "model", "problem", "tokenizer", "checkpoint", "adapter"})
    facts[key] = nullptr;
  facts["tied"] = json::array();
  if (model.kind == ModelKind::kHuggingFace) add_hf_facts(model, facts);
  if (model.kind == ModelKind::kAdapter) add_adapter_facts(model, facts);
  if (model.kind == ModelKind::kCheckpoint) add_checkpoint_facts(model, facts);
  return facts;
}

}  // namespace tt::cli
