#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/checkpoint/model_files.h"

namespace tt::train {

/// A folder of Hugging Face that is written: by a run at its end, or by `convert`.
struct HfFolder {
  std::string path;            // empty: none
  nlohmann::json config;       // its config.json
  std::string model_from;      // a folder whose generation_config.json is copied; empty: none
  std::string tokenizer_from;  // a folder whose tokenizer files are copied; empty: none
  bool replaces = false;       // an older folder of this name
};

/// config.json with another "dtype", which some versions of transformers call "torch_dtype".
nlohmann::json with_dtype(nlohmann::json config, at::ScalarType dtype);

class NewFolder;

/// Writes such a folder, one tensor after another. The folder appears under its name when it is
/// complete; a folder that is given up is removed. Errors have the code "storage". Thread: one.
class HfWriter {
 public:
  /// `flag`: the option or argument that named the folder.
  HfWriter(HfFolder folder, std::string flag);
  ~HfWriter();
  HfWriter(const HfWriter&) = delete;
  HfWriter& operator=(const HfWriter&) = delete;

  /// `tensors`: all of the model, in the order of add().
  base::Status begin(const std::vector<checkpoint::TensorSpec>& tensors,
                     std::size_t max_file_bytes = checkpoint::ModelFiles::kMaxBytes);
  /// Writes the next tensor. REQUIRES: begin() was ok; as checkpoint::SafetensorsWriter::add().
  base::Status add(const at::Tensor& tensor);
  /// Writes the other files and gives the folder its name. REQUIRES: all tensors were added. No
  /// call may follow.
  base::Status finish();

 private:
  HfFolder folder_;
  std::unique_ptr<NewFolder> made_;
  std::optional<checkpoint::ModelFiles> files_;
  bool is_open_ = false;
};

}  // namespace tt::train
