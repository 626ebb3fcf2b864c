#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/base/scoped_fd.h"

namespace tt::base {

/// Memory that two processes of one user share, mapped for reading and writing. It is sealed
/// (memfd_create, F_SEAL_SHRINK): what one side has mapped stays there whatever the other does.
/// Owner: this; the mapping and the descriptor end with it.
/// Thread: any; what the bytes hold is for the two sides to guard.
class SealedMemory {
 public:
  /// All zero; takes memory only where it is reserved or written. `name` shows in /proc.
  static Result<SealedMemory> create(const char* name, std::size_t bytes);
  /// What `fd` is in the process `pid`. The error's code is "shared_memory": another user's, no
  /// memory that is sealed so, of another size, or not to be seen from here.
  static Result<SealedMemory> open(pid_t pid, int fd, std::size_t bytes);

  SealedMemory(SealedMemory&& other) noexcept;
  SealedMemory& operator=(SealedMemory&&) = delete;
  ~SealedMemory();

  /// Takes memory for this range, as writing to it would; but where none can be had this is an
  /// error, and a write the end of the process. (A container may end it at either.)
  Status reserve(std::size_t offset, std::size_t bytes);
  /// Gives the range's memory back for both sides: it is zero then, until it is written again.
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
