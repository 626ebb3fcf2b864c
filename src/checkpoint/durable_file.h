#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/base/scoped_fd.h"

namespace tt::checkpoint {

/// A file that appears under its name only when all its bytes are on the disk. Until then it is
/// <path>.partial, which the destructor removes. Errors have the code "storage" and name the path.
/// Thread: one.
class DurableFile {
 public:
  static base::Result<DurableFile> create(std::string path);
  DurableFile(DurableFile&& other) noexcept;
  DurableFile& operator=(DurableFile&&) = delete;
  ~DurableFile();

  base::Status write(std::span<const std::byte> bytes);
  /// Writes the bytes to the disk and gives the file its name. No call may follow.
  base::Status finish();
  /// Of the bytes so far.
  std::size_t size() const { return size_; }
  std::uint32_t crc32c() const { return crc32c_; }

 private:
  DurableFile(std::string path, base::ScopedFd fd);
  std::string partial() const { return path_ + ".partial"; }

  const std::string path_;
  base::ScopedFd fd_;  // empty: finished, or moved from
  std::size_t size_ = 0;
  std::uint32_t crc32c_ = 0;
};

/// Writes a text as a DurableFile.
base::Status write_durable(const std::string& path, std::string_view text);

/// Writes the names in a folder to the disk.
base::Status sync_folder(const std::string& folder);

/// The error of a failed operation on `path`, from errno.
base::Error storage_error(const std::string& path, const std::string& what);

}  // namespace tt::checkpoint
