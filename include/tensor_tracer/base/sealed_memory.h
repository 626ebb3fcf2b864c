#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/base/scoped_fd.h"

namespace tt::base {

/// Memory that two processes of one user share, mapped for reading and writing. The memory is
/// sealed (memfd_create, F_SEAL_SHRINK): neither side can shrink it, so every mapping stays valid.
/// Owner: this; the mapping and the descriptor end with this object.
/// Thread: any; the two sides must guard the contents themselves.
class SealedMemory {
 public:
  /// All bytes are zero. Memory is used only where it is reserved or written. `name` shows in
  /// /proc.
  static Result<SealedMemory> create(const char* name, std::size_t bytes);
  /// Opens the memory that is descriptor `fd` in the process `pid`. The error's code is
  /// "shared_memory": the memory is another user's, is not sealed in this way, has another size, or
  /// cannot be seen from this process.
  static Result<SealedMemory> open(pid_t pid, int fd, std::size_t bytes);

  SealedMemory(SealedMemory&& other) noexcept;
  SealedMemory& operator=(SealedMemory&&) = delete;
  ~SealedMemory();

  /// Takes memory for this range, as a write to the range would. If there is no memory, this call
  /// returns an error, while a write would end the process. (In a container the system may end the
  /// process in both cases.)
  Status reserve(std::size_t offset, std::size_t bytes);
  /// Frees the range's memory for both sides: the range reads as zero until it is written again.
  void discard(std::size_t offset, std::size_t bytes);

  std::span<std::byte> bytes() const { return bytes_; }
  int fd() const { return fd_.get(); }

 private:
  SealedMemory(ScopedFd fd, std::span<std::byte> bytes) : fd_(std::move(fd)), bytes_(bytes) {}
  static Result<SealedMemory> map(ScopedFd fd, std::size_t bytes);

  ScopedFd fd_;
  std::span<std::byte> bytes_;
};

}  // namespace tt::base
