#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/checkpoint/safetensors.h"

namespace tt::checkpoint {

/// Writes the tensors of a model, one after another, as model.safetensors; above `max_bytes` as
/// several files and model.safetensors.index.json, as transformers does. Errors have the code
/// "storage" and name the path. Thread: one.
class ModelFiles {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{4} << 30U;

  /// The folder exists. `tensors`: all of the model, in the order of add().
  ModelFiles(std::string folder, const std::vector<TensorSpec>& tensors,
             std::size_t max_bytes = kMaxBytes);

  /// Writes the next tensor. REQUIRES: as SafetensorsWriter::add().
  base::Status add(const at::Tensor& tensor);
  /// Writes the index, if there are several files. REQUIRES: all tensors were added. No call may
  /// follow.
  base::Status finish();

 private:
  std::string name_of(std::size_t file) const;
  base::Status begin_file();
  base::Status write_index() const;

  const std::string folder_;
  std::vector<std::vector<TensorSpec>> files_;  // by file
  std::size_t file_ = 0;                        // of the next tensor
  std::optional<SafetensorsWriter> writer_;     // of that file; nullopt: not begun
};

}  // namespace tt::checkpoint
