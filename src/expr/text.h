#pragma once

#include <cstddef>
#include <string_view>

namespace tt::expr {

/// Of ASCII.
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The offset of the first byte that is not part of well-formed UTF-8; npos if all is.
std::size_t find_bad_utf8(std::string_view text);

}  // namespace tt::expr
