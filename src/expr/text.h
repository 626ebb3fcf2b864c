#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/expr/limits.h"

namespace tt::expr {

/// Of ASCII.
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The offset of the first byte that is not part of well-formed UTF-8; npos if all is.
std::size_t find_bad_utf8(std::string_view text);

/// What keeps a text from being read at all: its length, or bytes that are no UTF-8. `noun` is what
/// its author calls it: "the expression".
std::optional<base::Error> check_text(std::string_view source, const Limits& limits,
                                      const std::string& noun);

}  // namespace tt::expr
