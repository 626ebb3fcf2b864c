#pragma once

#include <cstddef>
#include <string>

#include "tensor_tracer/base/result.h"

/// Small files of the run directory that nobody else may read. Thread: any.
namespace tt::base {

/// `bytes` bytes of the kernel's random generator as lower-case hex digits; 256 bytes at most.
std::string random_hex(std::size_t bytes);

/// Replaces `path` as a whole (a new file, mode 0600, renamed into place).
Status write_private_file(const std::string& path, const std::string& text);

/// The file's text. The error's code is "not_found" if no file is there, "too_large" above the
/// limit, else "io_error": also for a folder and for a pipe or device, whose end nobody knows.
Result<std::string> read_small_file(const std::string& path, std::size_t max_bytes = 64 * 1024);

/// The secret in `path`; if there is no such file, it is made first: 256 random bits in hex. The
/// error's code is "invalid_secret" for a file of another user, for one that other users can read
/// or write, and for one that is too short.
Result<std::string> read_or_make_secret(const std::string& path);

}  // namespace tt::base
