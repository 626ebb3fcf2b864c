#pragma once

#include <string_view>

namespace tt::base {

/// The text after the byte order mark of UTF-8, which some editors write at the begin of a file.
inline std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

}  // namespace tt::base
