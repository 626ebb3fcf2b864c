#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tensor_tracer/trace/vectors.h"

namespace tt::checkpoint {

/// The vectors of one folder, or of one file (VectorFile). In a folder each file is one vector, and
/// the name of the vector is its file name without the extension; if several files have this name,
/// .pt is used first, then .safetensors. A file is read at the first request of its vector. New
/// files are found; a file that changed is read again. Thread: any.
///
/// A vector has the shape [layers + 1, hidden] (row 0 is the embedding) or [layers, hidden] (row 0
/// is layer 1). Numbers become float32. Errors name the file and the expected contents.
class VectorDirectory : public trace::VectorLibrary {
 public:
  VectorDirectory(std::string path, std::int64_t layers, std::int64_t hidden_size);
  std::vector<std::string> names() override;
  base::Result<std::shared_ptr<const trace::DirectionVector>> find(
      const std::string& name) override;

 private:
  struct Known {
    std::int64_t time = 0;
    std::uintmax_t size = 0;
    std::shared_ptr<const trace::DirectionVector> vector;
  };
  base::Error not_found(const std::string& name);
  base::Result<std::filesystem::path> file_of(const std::string& name);

  const std::string path_;
  const std::int64_t layers_, hidden_size_;
  std::mutex mutex_;
  std::map<std::string, Known> known_;  // guarded by mutex_
};

}  // namespace tt::checkpoint
