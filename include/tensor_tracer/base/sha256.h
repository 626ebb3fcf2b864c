#pragma once

#include <string>
#include <string_view>

namespace tt::base {

/// SHA-256 of the bytes (FIPS 180-4) as 64 lower-case hex digits. Thread: any.
std::string sha256_of(std::string_view bytes);

}  // namespace tt::base
