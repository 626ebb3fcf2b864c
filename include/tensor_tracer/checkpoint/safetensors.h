#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"

namespace tt::checkpoint {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;  // dense CPU tensor, any order of strides
};

struct FileFacts {
  std::string name;  // in its folder
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;
};

/// Writes a file in the safetensors format (8-byte little-endian header length, JSON header padded
/// with spaces to 8 bytes, then the tensors' bytes). The file appears under `path` only when it is
/// complete and on the disk. Error: a dtype that the format has no name for, or an error of the
/// file system. Thread: any.
base::Result<FileFacts> write_safetensors(const std::string& path,
                                          const std::vector<NamedTensor>& tensors,
                                          const std::map<std::string, std::string>& metadata);

}  // namespace tt::checkpoint
