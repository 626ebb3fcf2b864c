#pragma once

#include <cstdint>
#include <string>

namespace tt::base {

/// A number of bytes for people, such as "256 MB" or "1.5 GB"; 1 MB is 2^20 bytes, as in options.
std::string size_text(std::uint64_t bytes);

/// A number with a comma between groups of three digits: "12,345".
std::string with_commas(std::int64_t number);

}  // namespace tt::base
