#include "tensor_tracer/base/private_file.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include "tensor_tracer/base/scoped_fd.h"

namespace tt::base {
namespace {

constexpr std::size_t kSecretBytes = 32;
constexpr std::size_t kMaxSecretFile = 4096;

Error file_error(const std::string& path, const std::string& what, int number) {
  return {.code = number == ENOENT ? "not_found" : "io_error",
          .message = what + ": " + std::generic_category().message(number),
          .where = path};
}

bool write_all(int fd, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno != EINTR) return false;
    done += n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  return true;
}

std::string size_text(std::size_t bytes) {
  constexpr std::size_t kMebi = std::size_t{1} << 20U;
  return bytes % kMebi == 0 ? std::to_string(bytes / kMebi) + " MiB"
                            : std::to_string(bytes) + " bytes";
}

Result<std::string> read_all(const ScopedFd& fd, const std::string& path, std::size_t max_bytes) {
  std::string text;
  std::vector<char> chunk(64 << 10);
  while (true) {
    const ssize_t n = ::read(fd.get(), chunk.data(), chunk.size());
    if (n == 0) return text;
    if (n < 0 && errno != EINTR) return file_error(path, "cannot be read", errno);
    text.append(chunk.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
    if (text.size() > max_bytes) {
      return Error{
          .code = "too_large", .message = "is larger than " + size_text(max_bytes), .where = path};
    }
  }
}

Error unusable_secret(const std::string& path, std::string why) {
  return {.code = "invalid_secret",
          .message = std::move(why),
          .where = path,
          .remedy =
              "delete the file: a new one is made, in a directory whose file system has "
              "permissions"};
}

Status check_private(const ScopedFd& fd, const std::string& path) {
  struct stat facts {};
  if (::fstat(fd.get(), &facts) != 0) return file_error(path, "cannot be read", errno);
  if (!S_ISREG(facts.st_mode)) return unusable_secret(path, "a token must be in a regular file");
  if (facts.st_uid != ::geteuid()) {
    return unusable_secret(path, "this token belongs to user " + std::to_string(facts.st_uid) +
                                     ", not to user " + std::to_string(::geteuid()));
  }
  if ((facts.st_mode & 077U) != 0) {
    return unusable_secret(path, "other users can read or write this token: its mode is " +
                                     fmt::format("{:04o}", facts.st_mode & 07777U) + ", not 0600");
  }
  return {};
}

Result<std::string> read_secret(const std::string& path) {
  const ScopedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return file_error(path, "cannot be read", errno);
  if (Status is_private = check_private(fd, path); !is_private.ok()) return is_private.error();
  return read_all(fd, path, kMaxSecretFile);
}

}  // namespace

std::string random_hex(std::size_t bytes) {
  std::vector<unsigned char> random(bytes);
  if (::getentropy(random.data(), bytes) != 0)
    throw std::system_error(errno, std::generic_category(), "getentropy");
  return fmt::format("{:02x}", fmt::join(random, ""));
}

Status write_private_file(const std::string& path, const std::string& text) {
  const std::string fresh = path + "." + random_hex(4);
  const ScopedFd fd(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return file_error(path, "cannot be written", errno);
  if (!write_all(fd.get(), text) || ::rename(fresh.c_str(), path.c_str()) != 0) {
    const int number = errno;
    ::unlink(fresh.c_str());
    return file_error(path, "cannot be written", number);
  }
  return {};
}

Result<std::string> read_small_file(const std::string& path, std::size_t max_bytes) {
  const ScopedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about {};
  if (!fd || ::fstat(fd.get(), &about) != 0) return file_error(path, "cannot be read", errno);
  if (!S_ISREG(about.st_mode))
    return Error{"io_error", "cannot be read: it is not a regular file", path};
  return read_all(fd, path, max_bytes);
}

Result<std::string> read_or_make_secret(const std::string& path) {
  Result<std::string> text = read_secret(path);
  if (!text && text.error().code == "not_found") {
    const std::string secret = random_hex(kSecretBytes);
    if (Status written = write_private_file(path, secret + "\n"); !written.ok())
      return written.error();
    return secret;
  }
  if (!text) return text;
  std::string secret = std::move(text).value();
  while (!secret.empty() && std::isspace(static_cast<unsigned char>(secret.back())) != 0)
    secret.pop_back();
  if (secret.size() < kSecretBytes)
    return unusable_secret(path, "shorter than " + std::to_string(kSecretBytes) + " characters");
  return secret;
}

}  // namespace tt::base
