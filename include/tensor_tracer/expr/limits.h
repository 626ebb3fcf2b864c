#pragma once

#include <cstddef>

namespace tt::expr {

/// How large an expression may be. What is past a limit is refused before it costs anything.
struct Limits {
  std::size_t max_source_bytes = 4096;
  /// Of the syntax tree, and of brackets and signs in the text; a sum of n terms is n deep.
  std::size_t max_depth = 100;
  std::size_t max_nodes = 1000;
  /// Digits of one number, its exponent's included.
  std::size_t max_digits = 40;
};

}  // namespace tt::expr
