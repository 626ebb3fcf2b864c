#include "tensor_tracer/base/sealed_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

namespace tt::base {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Error failed(const std::string& what, const std::string& why) {
  return {.code = "shared_memory", .message = what + ": " + why};
}

Error failed(const std::string& what) {
  return failed(what, std::generic_category().message(errno));
}

// Call this before the file is opened: opening a device or a pipe may have side effects.
Status check_file(const std::string& path, std::size_t bytes) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) {
    return failed(path);
  }
  if (!S_ISREG(facts.st_mode) || facts.st_uid != ::geteuid()) {
    return failed(path, "is not memory of this user");
  }
  if (facts.st_size < 0 || static_cast<std::size_t>(facts.st_size) != bytes) {
    return failed(path, "has another size");
  }
  return {};
}

}  // namespace

Result<SealedMemory> SealedMemory::create(const char* name, std::size_t bytes) {
  // A file above the limit of the shell's `ulimit -f` would raise a signal that ends the process.
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) {
    return failed("memory to share cannot be made", "files may not be so long");
  }
  ScopedFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    return failed("memory to share cannot be made");
  }
  return map(std::move(fd), bytes);
}

Result<SealedMemory> SealedMemory::open(pid_t pid, int fd, std::size_t bytes) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
  if (Status checked = check_file(path, bytes); !checked.ok()) {
    return checked.error();
  }
  ScopedFd own(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!own) {
    return failed(path);
  }
  // Only memory of memfd_create has seals, and a seal is never removed; so the check also holds for
  // the file that `path` was. Memory of huge pages is refused (it has another file system): the
  // system may have no huge page left when the memory is read.
  const int seals = ::fcntl(own.get(), F_GET_SEALS);
  struct stat facts {};
  struct statfs system {};
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(own.get(), &facts) != 0 ||
      ::fstatfs(own.get(), &system) != 0 || system.f_type != TMPFS_MAGIC ||
      static_cast<std::size_t>(facts.st_size) != bytes) {
    return failed(path, "is not memory that keeps its size");
  }
  return map(std::move(own), bytes);
}

Result<SealedMemory> SealedMemory::map(ScopedFd fd, std::size_t bytes) {
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (at == MAP_FAILED) {
    return failed("memory to share cannot be mapped");
  }
  return SealedMemory(std::move(fd), {static_cast<std::byte*>(at), bytes});
}

SealedMemory::SealedMemory(SealedMemory&& other) noexcept
    : fd_(std::move(other.fd_)), bytes_(std::exchange(other.bytes_, {})) {}

SealedMemory::~SealedMemory() {
  if (!bytes_.empty()) {
    ::munmap(bytes_.data(), bytes_.size());
  }
}

Status SealedMemory::reserve(std::size_t offset, std::size_t bytes) {
  if (::fallocate(fd_.get(), 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0) {
    return failed("memory to share cannot be had");
  }
  return {};
}

void SealedMemory::discard(std::size_t offset, std::size_t bytes) {
  static_cast<void>(::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                static_cast<off_t>(offset), static_cast<off_t>(bytes)));
}

}  // namespace tt::base
