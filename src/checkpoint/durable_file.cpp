#include "src/checkpoint/durable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "tensor_tracer/protocol/crc32c.h"

namespace tt::checkpoint {

base::Error storage_error(const std::string& path, const std::string& what) {
  return {"storage", what + ": " + std::generic_category().message(errno), path,
          "check the folder and the space on its disk"};
}

base::Result<DurableFile> DurableFile::create(std::string path) {
  const std::string partial = path + ".partial";
  base::ScopedFd fd(::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd) return storage_error(path, "cannot be written");
  return DurableFile(std::move(path), std::move(fd));
}

DurableFile::DurableFile(std::string path, base::ScopedFd fd)
    : path_(std::move(path)), fd_(std::move(fd)) {}

DurableFile::DurableFile(DurableFile&& other) noexcept
    : path_(other.path_), fd_(std::move(other.fd_)), size_(other.size_), crc32c_(other.crc32c_) {}

DurableFile::~DurableFile() {
  if (fd_) ::unlink(partial().c_str());
}

base::Status DurableFile::write(std::span<const std::byte> bytes) {
  crc32c_ = protocol::crc32c(bytes, crc32c_);
  size_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return storage_error(path_, "cannot be written");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

base::Status DurableFile::finish() {
  if (::fsync(fd_.get()) != 0) return storage_error(path_, "cannot be written to the disk");
  if (::rename(partial().c_str(), path_.c_str()) != 0)
    return storage_error(path_, "cannot be put in place");
  fd_.reset();
  return sync_folder(std::filesystem::path(path_).parent_path());
}

base::Status write_durable(const std::string& path, std::string_view text) {
  auto file = DurableFile::create(path);
  if (!file) return file.error();
  auto status = file.value().write(std::as_bytes(std::span(text)));
  return status ? file.value().finish() : status;
}

base::Status sync_folder(const std::string& folder) {
  const base::ScopedFd fd(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some network file systems cannot sync a folder and say EINVAL.
  if (!fd || (::fsync(fd.get()) != 0 && errno != EINVAL))
    return storage_error(folder, "cannot be written to the disk");
  return {};
}

}  // namespace tt::checkpoint
