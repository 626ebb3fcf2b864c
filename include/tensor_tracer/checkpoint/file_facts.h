#pragma once

#include <cstdint>
#include <string>

namespace tt::checkpoint {

/// A file as it was written. Thread: any.
struct FileFacts {
  std::string name;  // in its folder
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;
};

}  // namespace tt::checkpoint
