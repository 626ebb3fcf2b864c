#pragma once

#include <string>

#include "tensor_tracer/trace/vectors.h"

namespace tt::checkpoint {

/// The safetensors files of one folder, 256 MiB at most each; a file is read at every call. Names
/// are of files in the folder itself. Thread: any.
class TensorDirectory : public trace::TensorFiles {
 public:
  explicit TensorDirectory(std::string folder) : folder_(std::move(folder)) {}
  base::Result<at::Tensor> find(const std::string& file, const std::string& name) override;

 private:
  const std::string folder_;
};

}  // namespace tt::checkpoint
