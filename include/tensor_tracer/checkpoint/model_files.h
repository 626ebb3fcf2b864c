#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/checkpoint/safetensors.h"

namespace tt::checkpoint {

/// Writes the tensors of a model as model.safetensors; above `max_bytes` as several files and
/// model.safetensors.index.json, as transformers does. Errors have the code "storage" and name the
/// path. Thread: one.
class ModelFiles {
 public:
  /// The folder exists.
  explicit ModelFiles(std::string folder, std::size_t max_bytes = std::size_t{4} << 30U)
      : folder_(std::move(folder)), max_bytes_(max_bytes) {}

  /// Keeps the tensor until its file is full, then writes the file.
  base::Status add(NamedTensor tensor);
  /// Writes the rest, and gives the files their names. No call may follow.
  base::Status finish();

 private:
  base::Status write_pending();
  std::string path_of(std::size_t file) const;
  base::Status write_index(const std::vector<std::string>& names) const;

  const std::string folder_;
  const std::size_t max_bytes_;
  std::vector<NamedTensor> pending_;
  std::size_t pending_bytes_ = 0;
  std::uint64_t total_bytes_ = 0;
  std::size_t num_files_ = 0;
  std::map<std::string, std::size_t> file_of_;  // by tensor
};

}  // namespace tt::checkpoint
