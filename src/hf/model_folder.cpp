#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "src/hf/config_reader.h"
#include "tensor_tracer/base/private_file.h"
#include "tensor_tracer/hf/model.h"
#include "tensor_tracer/protocol/json_members.h"
#include "tensor_tracer/protocol/message.h"

namespace tt::hf {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kWhole = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

base::Error bad_file(const fs::path& path, const std::string& message) {
  return {"invalid_argument", message, path.string(),
          "give a folder that transformers' save_pretrained() has written"};
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool has_files_of_pickle(const fs::path& folder) {
  return is_there(folder / "pytorch_model.bin") ||
         is_there(folder / "pytorch_model.bin.index.json");
}

// True for the name of a .safetensors file in the folder.
bool is_weight_file(const std::string& name) {
  const bool has_folder = name.find_first_of(std::string_view("/\0", 2)) != name.npos;
  return !has_folder && fs::path(name).extension() == ".safetensors";
}

// Of a text that is JSON.
std::optional<std::string> repeated_key(const std::string& text) {
  using Event = json::parse_event_t;
  std::vector<std::set<std::string>> open;
  std::optional<std::string> repeated;
  const auto look = [&](int, Event event, json& value) {
    if (event == Event::object_start) open.emplace_back();
    if (event == Event::key && !open.back().insert(value).second) repeated = value;
    if (event == Event::object_end) open.pop_back();
    return true;
  };
  const json all = json::parse(text, look, false);
  return all.is_discarded() ? std::nullopt : repeated;
}

base::Result<std::vector<std::string>> read_index(const std::string& path) {
  const auto index = read_json_file(path, kMaxIndexBytes);
  if (!index) return index.error();
  return files_of_index(index.value(), path);
}

std::vector<std::string> find_shards(const fs::path& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    std::string name = entry.path().filename().string();
    if (is_shard(name)) files.push_back(std::move(name));
  }
  std::ranges::sort(files);
  return files;
}

base::Result<std::vector<std::string>> find_files(const fs::path& folder) {
  if (is_there(folder / kWhole)) return std::vector<std::string>{kWhole};
  if (is_there(folder / kIndex)) return read_index((folder / kIndex).string());
  if (auto shards = find_shards(folder); !shards.empty()) return shards;
  if (has_files_of_pickle(folder)) {
    return base::Error{"invalid_argument",
                       "holds weights as pytorch_model.bin, which could run code when it is read",
                       folder.string(),
                       "convert in Python: AutoModelForCausalLM.from_pretrained(FOLDER)"
                       ".save_pretrained(NEW_FOLDER)"};
  }
  return bad_file(folder, std::string("holds neither ") + kWhole + " nor " + kIndex);
}

bool holds_checkpoints(const fs::path& folder) {
  if (is_there(folder / "manifest.json")) return true;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (is_there(entry.path() / "manifest.json")) return true;
  return false;
}

base::Error without_config(const fs::path& folder) {
  if (holds_checkpoints(folder))
    return {"invalid_argument", "holds a checkpoint, not a model of Hugging Face", folder.string(),
            "convert it: tensor-tracer convert " + folder.string() + " NEW_FOLDER"};
  return {"invalid_argument", "is missing", (folder / "config.json").string(),
          "copy it from the folder of the model that the weights belong to, with the files of the "
          "tokenizer"};
}

}  // namespace

base::Result<json> read_json_file(const std::string& path, std::size_t limit) {
  const auto text = base::read_small_file(path, limit);
  if (!text) return bad_file(path, text.error().message);
  auto parsed = protocol::parse_json(text.value(), {.bytes = limit});
  if (!parsed) return bad_file(path, parsed.error().message);
  if (const auto key = repeated_key(text.value()))
    return bad_file(path, "has the key \"" + *key + "\" twice");
  if (!parsed.value().is_object()) return bad_file(path, "is not a JSON object");
  return parsed;
}

base::Result<std::vector<std::string>> files_of_index(const json& index, const std::string& path) {
  const json& map = protocol::member(index, "weight_map");
  if (!map.is_object()) return bad_file(path, "its weight_map is not a map from tensors to files");
  std::set<std::string> files;
  for (const auto& [tensor, file] : map.items()) {
    if (!file.is_string()) return bad_file(path, "its weight_map is not a list of file names");
    if (!is_weight_file(file.get_ref<const std::string&>()))
      return bad_file(path,
                      "names " + shown(file) + ", which is no .safetensors file of the folder");
    files.insert(file);
  }
  if (files.empty()) return bad_file(path, "names no file");
  return std::vector<std::string>(files.begin(), files.end());
}

bool is_shard(const std::string& file) {
  return file.starts_with("shard-") && is_weight_file(file);
}

base::Status refuse_distcp(const std::string& folder) {
  bool has_distcp = false;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const fs::path extension = entry.path().extension();
    if (extension == ".safetensors") return {};
    has_distcp = has_distcp || extension == ".distcp";
  }
  if (!has_distcp) return {};
  return base::Error{
      "invalid_argument", "holds .distcp files, which only PyTorch can read", folder,
      "convert: python -m torch.distributed.checkpoint.format_utils dcp_to_torch " + folder +
          " weights.pt, then in Python safetensors.torch.save_file(torch.load(\"weights.pt\"), "
          "\"NEW_FOLDER/model.safetensors\"), and copy config.json to NEW_FOLDER"};
}

base::Result<ModelFolder> read_model_folder(const std::string& path) {
  const fs::path folder(path);
  if (!is_there(folder))
    return base::Error{"not_found", "there is no such folder", path, "give the folder of a model"};
  if (auto status = refuse_distcp(path); !status) return status.error();
  if (!is_there(folder / "config.json")) return without_config(folder);
  auto config = read_json_file((folder / "config.json").string(), kMaxConfigBytes);
  if (!config) return config.error();
  auto files = find_files(folder);
  if (!files) return files.error();
  return ModelFolder{path, std::move(config).value(), std::move(files).value()};
}

}  // namespace tt::hf
