#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/base/result.h"

namespace tt::checkpoint {

/// Limit of the header's JSON; has a test.
inline constexpr std::uint64_t kMaxSafetensorsHeaderBytes = 100 << 20;

/// A tensor in a safetensors file: bytes [begin, end) of the file.
struct SafetensorsEntry {
  std::string dtype;  // the format's name, such as "BF16"
  std::vector<std::int64_t> shape;
  std::size_t begin = 0, end = 0;
};

struct SafetensorsHeader {
  std::map<std::string, SafetensorsEntry> tensors;  // by name
  std::map<std::string, std::string> metadata;
  std::size_t bytes = 0;  // of the header with its length: the data begin here
};

/// Reads the header of a file that begins with `file` and has `file_bytes` bytes. Refuses a name
/// that occurs twice and tensors that overlap or do not lie inside the file. Does not compare
/// shapes with sizes. The error's message describes the error in the bytes. Thread: any.
base::Result<SafetensorsHeader> read_safetensors_header(std::string_view file,
                                                        std::size_t file_bytes);

}  // namespace tt::checkpoint
