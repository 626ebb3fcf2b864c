#pragma once

#include <string>

#include "tensor_tracer/trace/vectors.h"

namespace tt::checkpoint {

/// The safetensors files of one folder, at most 256 MiB each. Every call reads the file. A name is
/// a file in this folder, not in a subfolder. Thread: any.
class TensorDirectory : public trace::TensorFiles {
 public:
  explicit TensorDirectory(std::string folder) : folder_(std::move(folder)) {}
  base::Result<at::Tensor> find(const std::string& file, const std::string& name) override;

 private:
  const std::string folder_;
};

}  // namespace tt::checkpoint
