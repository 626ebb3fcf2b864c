#include "tensor_tracer/base/private_file.h"

#include <fcntl.h>
#include <sys/random.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>
#include <vector>

#include "tensor_tracer/base/scoped_fd.h"

namespace tt::base {
namespace {

Error file_error(const std::string& path, const std::string& what, int number) {
  return {.code = number == ENOENT ? "not_found" : "io_error",
          .message = what + ": " + std::generic_category().message(number),
          .where = path,
          .remedy = {}};
}

bool write_all(int fd, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno != EINTR) {
      return false;
    }
    done += n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  return true;
}

}  // namespace

std::string random_hex(std::size_t bytes) {
  std::vector<unsigned char> random(bytes);
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t n = ::getrandom(random.data() + done, bytes - done, 0);
    if (n < 0 && errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "getrandom");
    }
    done += n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(bytes * 2);
  for (const unsigned char byte : random) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

Status write_private_file(const std::string& path, const std::string& text) {
  const std::string fresh = path + "." + random_hex(4);
  const ScopedFd fd(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) {
    return file_error(path, "cannot be written", errno);
  }
  if (!write_all(fd.get(), text) || ::rename(fresh.c_str(), path.c_str()) != 0) {
    const int number = errno;
    ::unlink(fresh.c_str());
    return file_error(path, "cannot be written", number);
  }
  return {};
}

Result<std::string> read_small_file(const std::string& path, std::size_t max_bytes) {
  const ScopedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    return file_error(path, "cannot be read", errno);
  }
  std::string text;
  std::array<char, 4096> chunk{};
  while (true) {
    const ssize_t n = ::read(fd.get(), chunk.data(), chunk.size());
    if (n == 0) {
      return text;
    }
    if (n < 0 && errno != EINTR) {
      return file_error(path, "cannot be read", errno);
    }
    text.append(chunk.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
    if (text.size() > max_bytes) {
      return Error{.code = "too_large",
                   .message = "more than " + std::to_string(max_bytes) + " bytes",
                   .where = path,
                   .remedy = {}};
    }
  }
}

Result<std::string> read_or_make_secret(const std::string& path) {
  constexpr std::size_t kSecretBytes = 32;
  Result<std::string> text = read_small_file(path);
  if (!text && text.error().code == "not_found") {
    const std::string secret = random_hex(kSecretBytes);
    if (Status written = write_private_file(path, secret + "\n"); !written.ok()) {
      return written.error();
    }
    return secret;
  }
  if (!text) {
    return text;
  }
  std::string secret = std::move(text).value();
  while (!secret.empty() && std::isspace(static_cast<unsigned char>(secret.back())) != 0) {
    secret.pop_back();
  }
  if (secret.size() < kSecretBytes) {
    return Error{.code = "invalid_secret",
                 .message = "shorter than " + std::to_string(kSecretBytes) + " characters",
                 .where = path,
                 .remedy = "delete the file: a new one is made"};
  }
  return secret;
}

}  // namespace tt::base
