#pragma once

#include <cstddef>
#include <string>

#include "tensor_tracer/base/result.h"

/// Small files of the run directory that no other user may read. Thread: any.
namespace tt::base {

/// `bytes` bytes of the kernel's random generator as lower-case hex digits; 256 bytes at most.
std::string random_hex(std::size_t bytes);

/// Replaces `path` as a whole: writes a new file with mode 0600 and renames it to `path`.
Status write_private_file(const std::string& path, const std::string& text);

/// The file's text. The error's code is "not_found" if there is no file, "too_large" if the file is
/// above the limit, else "io_error". A folder, a pipe and a device are an "io_error" too: a pipe or
/// a device has no known end.
Result<std::string> read_small_file(const std::string& path, std::size_t max_bytes = 64 * 1024);

/// The secret in `path`. If there is no file, makes one first: 256 random bits in hex. The error's
/// code is "invalid_secret" for a file of another user, for a file that other users can read or
/// write, and for a file that is too short.
Result<std::string> read_or_make_secret(const std::string& path);

}  // namespace tt::base
