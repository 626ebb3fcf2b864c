#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/checkpoint/manifest.h"
#include "tensor_tracer/checkpoint/tensor_table.h"

namespace tt::cli {

enum class ModelKind { kCheckpoint, kHuggingFace, kAdapter, kFile };

/// The model that a path names.
struct ModelPath {
  ModelKind kind = ModelKind::kFile;
  std::string folder;              // of the files
  std::vector<std::string> files;  // of the tensors, in the folder
  nlohmann::json config = {};      // config.json or adapter_config.json; else null
  checkpoint::Manifest manifest = {};
  std::vector<std::string> older = {};  // names of the other checkpoints, the newest first
};

/// Finds the model: a checkpoint, or the newest of a folder of checkpoints or of the folder
/// "checkpoints" in a run directory; a folder of Hugging Face or of PEFT; a .safetensors file.
/// Error: the path names something else, or the manifest or the configuration cannot be read. For a
/// GGUF file the error names the command of the Python package, with `target`.
base::Result<ModelPath> read_model_path(const std::string& path, const std::string& target);

/// Reads the headers of the files.
base::Result<checkpoint::TensorTable> read_headers(const ModelPath& model);

}  // namespace tt::cli
