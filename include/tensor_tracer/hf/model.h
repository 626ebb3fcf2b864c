#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/config/train_config.h"

/// Models in the form of Hugging Face: a folder with config.json, files of weights
/// (.safetensors) and the files of a tokenizer. A family of models (src/hf/families) is a mapping
/// of config.json and a table of names. Thread: any.
namespace tt::hf {

/// Limits of config.json and model.safetensors.index.json; each has a test.
inline constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20U;
inline constexpr std::size_t kMaxIndexBytes = std::size_t{64} << 20U;

/// The JSON object in a file. Error: the file is missing, above `limit` bytes, or something else.
base::Result<nlohmann::json> read_json_file(const std::string& path, std::size_t limit);

/// The files that model.safetensors.index.json names, sorted. `path`: for the error: its list is
/// wrong, or names something else than a .safetensors file of its folder.
base::Result<std::vector<std::string>> files_of_index(const nlohmann::json& index,
                                                      const std::string& path);

/// True for a file that one rank wrote with torch's
/// HuggingFaceStorageWriter(save_distributed=True). Such a folder has no index, and nothing in it
/// tells how many files there were.
bool is_shard(const std::string& file);

/// Error: the folder has .distcp files of torch.distributed.checkpoint, and no .safetensors file.
/// The error names the command that converts them.
base::Status refuse_distcp(const std::string& folder);

/// A model in a folder.
struct ModelFolder {
  std::string path;
  nlohmann::json config;           // config.json
  std::vector<std::string> files;  // of the weights, in the folder
};

/// Reads config.json and finds the files of the weights: model.safetensors, those of the index, or
/// shards. Error: a file is missing or is not JSON; its `where` is the path; or that of
/// refuse_distcp().
base::Result<ModelFolder> read_model_folder(const std::string& path);

/// Sets the options of `model` that config.json decides. --seq-length, --init-method-std and the
/// dropouts stay. Error: the family is unknown, or config.json asks for what this program does not
/// compute; `where` names the key.
base::Status apply_config(const nlohmann::json& config, config::ModelConfig& model);

/// Where the files have one of our parameters.
struct Source {
  std::vector<std::string> tensors;  // joined along dim 0
  std::vector<std::int64_t> sizes;   // of each along dim 0; empty if there is one tensor
  bool transposed = false;           // the files hold [columns, rows]
};

/// The tensors of the parameter `name` (nn::Parameter). REQUIRES: the family of config.json is
/// known, and the model has the parameter.
Source source_of(const nlohmann::json& config, const config::ModelConfig& model,
                 std::string_view name);

/// True for tensors of the files that no parameter needs: buffers, and copies of tied weights.
bool is_needless(const nlohmann::json& config, std::string_view tensor);

/// The prefix that some writers leave out of the names of source_of(), such as "model.".
std::string prefix_of(const nlohmann::json& config);

/// A config.json for a model that began here, without "dtype". Error: no family has this model;
/// `where` names the option.
base::Result<nlohmann::json> make_config(const config::ModelConfig& model);

}  // namespace tt::hf
