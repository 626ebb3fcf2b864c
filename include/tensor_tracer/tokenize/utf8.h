#pragma once

#include <string>
#include <string_view>

namespace tt::tokenize {

/// Each broken sequence of bytes becomes U+FFFD: the maximal subparts of chapter 3.9 of the Unicode
/// standard, as Rust's String::from_utf8_lossy replaces them. Thread: any.
std::string replace_invalid(std::string_view bytes);

}  // namespace tt::tokenize
