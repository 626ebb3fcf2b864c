#pragma once

#include <cstddef>

namespace tt::expr {

/// The largest size of an expression. Text beyond a limit is refused before it uses time or memory.
struct Limits {
  std::size_t max_source_bytes = 4096;
  /// The depth of the syntax tree, and of brackets and signs in the text. A sum of n terms has
  /// depth n.
  std::size_t max_depth = 100;
  std::size_t max_nodes = 1000;
  /// The digits of one number, including its exponent's digits.
  std::size_t max_digits = 40;
};

}  // namespace tt::expr
