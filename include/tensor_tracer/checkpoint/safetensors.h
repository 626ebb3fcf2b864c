#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/checkpoint/file_facts.h"

namespace tt::checkpoint {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;  // dense CPU tensor, any order of strides
};

/// A tensor that will be written.
struct TensorSpec {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<std::int64_t> shape;

  std::size_t bytes() const;
};

class DurableFile;

/// Writes a file in the safetensors format (8-byte little-endian header length, JSON header padded
/// with spaces to 8 bytes, then the tensors' bytes), one tensor after another. The file appears
/// under its path only when it is complete and on the disk. Errors: a dtype that the format has no
/// name for, or an error of the file system; the code is "storage". Thread: one.
class SafetensorsWriter {
 public:
  /// `tensors`: all of the file, in the order of add().
  static base::Result<SafetensorsWriter> create(const std::string& path,
                                                std::vector<TensorSpec> tensors,
                                                const std::map<std::string, std::string>& metadata);
  SafetensorsWriter(SafetensorsWriter&& other) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&& other) noexcept;
  ~SafetensorsWriter();  // removes a file that is not finished

  /// Writes the next tensor: on the CPU, any order of strides. REQUIRES: the dtype and the shape
  /// are those of create().
  base::Status add(const at::Tensor& tensor);
  /// True if all tensors were added.
  bool is_complete() const { return next_ == tensors_.size(); }
  /// REQUIRES: is_complete(). No call may follow.
  base::Result<FileFacts> finish();

 private:
  SafetensorsWriter(std::string path, std::unique_ptr<DurableFile> file,
                    std::vector<TensorSpec> tensors);

  std::string path_;
  std::unique_ptr<DurableFile> file_;
  std::vector<TensorSpec> tensors_;
  std::size_t next_ = 0;
};

/// Writes tensors that are in memory as such a file. Error: as SafetensorsWriter. Thread: any.
base::Result<FileFacts> write_safetensors(const std::string& path,
                                          const std::vector<NamedTensor>& tensors,
                                          const std::map<std::string, std::string>& metadata);

}  // namespace tt::checkpoint
