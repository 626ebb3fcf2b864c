#include "tensor_tracer/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

#include "tensor_tracer/base/scoped_fd.h"

namespace tt::base {
namespace {

Error cannot_read(const std::string& path, const std::string& reason, int number) {
  return {.code = number == ENOENT ? "not_found" : "io_error",
          .message = "cannot be read: " + reason,
          .where = path};
}

}  // namespace

Result<SharedBytes> map_file(const std::string& path) {
  const auto reason = [] { return std::generic_category().message(errno); };
  const ScopedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat facts {};
  if (!fd || ::fstat(fd.get(), &facts) != 0) return cannot_read(path, reason(), errno);
  if (!S_ISREG(facts.st_mode)) return cannot_read(path, "it is not a regular file", 0);
  const auto size = static_cast<std::size_t>(facts.st_size);
  if (size == 0) return SharedBytes();
  void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (mapped == MAP_FAILED) return cannot_read(path, reason(), errno);
  const std::shared_ptr<const void> owner(mapped, [size](void* memory) { ::munmap(memory, size); });
  return SharedBytes(owner, {static_cast<const char*>(mapped), size}, size);
}

void release_pages(std::string_view part) {
  if (part.empty()) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(part.data());
  const auto offset = begin % static_cast<std::uintptr_t>(::getpagesize());
  ::madvise(const_cast<char*>(part.data()) - offset, part.size() + offset, MADV_DONTNEED);
}

}  // namespace tt::base
