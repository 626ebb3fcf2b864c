#include "src/cli/model_path.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "tensor_tracer/base/mapped_file.h"
#include "tensor_tracer/hf/model.h"

namespace tt::cli {
namespace {

namespace fs = std::filesystem;

base::Error no_model(const std::string& path, const std::string& message) {
  return base::invalid_argument(path, message,
                                "give a checkpoint, a folder of Hugging Face or PEFT, or a "
                                ".safetensors file");
}

base::Result<ModelPath> read_file_path(const fs::path& path, const std::string& target) {
  if (path.extension() == ".gguf") {
    return base::invalid_argument(
        path.string(), "is a GGUF file, which the Python package converts",
        "python -m tensor_tracer convert " + path.string() + " " + target);
  }
  if (path.extension() != ".safetensors")
    return no_model(path.string(), "is not a .safetensors file");
  const std::string folder = path.has_parent_path() ? path.parent_path().string() : ".";
  return ModelPath{ModelKind::kFile, folder, {path.filename().string()}};
}

// `found`: checkpoints, the newest first.
base::Result<ModelPath> read_checkpoint(const std::vector<std::string>& found) {
  auto manifest = checkpoint::read_manifest(found.front());
  if (!manifest) return manifest.error();
  ModelPath model{ModelKind::kCheckpoint, found.front(), {}};
  for (const checkpoint::FileFacts& file : manifest.value().files)
    if (file.name.ends_with(".safetensors")) model.files.push_back(file.name);
  model.manifest = std::move(manifest).value();
  for (std::size_t i = 1; i < found.size(); ++i)
    model.older.push_back(fs::path(found[i]).filename().string());
  return model;
}

base::Result<ModelPath> read_adapter_folder(const std::string& path) {
  auto config = hf::read_json_file(path + "/adapter_config.json", hf::kMaxConfigBytes);
  if (!config) return config.error();
  return ModelPath{
      ModelKind::kAdapter, path, {"adapter_model.safetensors"}, std::move(config).value()};
}

base::Result<ModelPath> read_hf_folder(const std::string& path) {
  auto folder = hf::read_model_folder(path);
  if (!folder) return folder.error();
  return ModelPath{ModelKind::kHuggingFace, path, std::move(folder.value().files),
                   std::move(folder.value().config)};
}

}  // namespace

base::Result<ModelPath> read_model_path(const std::string& path, const std::string& target) {
  std::error_code error;
  if (!fs::exists(path, error)) return no_model(path, "there is no such file or folder");
  if (!fs::is_directory(path, error)) return read_file_path(path, target);
  const fs::path folder(path);
  for (const fs::path& place : {folder, folder / "checkpoints"}) {
    const auto found = checkpoint::find_checkpoints(place.string());
    if (!found.empty()) return read_checkpoint(found);
  }
  if (fs::exists(folder / "adapter_config.json", error)) return read_adapter_folder(path);
  if (fs::exists(folder / "config.json", error)) return read_hf_folder(path);
  if (auto status = hf::refuse_distcp(path); !status) return status.error();
  return no_model(path,
                  "holds no manifest.json, step_… folder, config.json or adapter_config.json");
}

base::Result<checkpoint::TensorTable> read_headers(const ModelPath& model) {
  checkpoint::TensorTable table;
  for (const std::string& file : model.files) {
    const std::string path = (fs::path(model.folder) / file).string();
    const auto bytes = base::map_file(path);
    if (!bytes) return bytes.error();
    if (auto status = table.add_file(path, *bytes.value()); !status) return status.error();
  }
  if (auto status = table.complete(); !status) return status.error();
  return table;
}

}  // namespace tt::cli
