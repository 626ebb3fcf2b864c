#pragma once

#include <cstdint>

#include "tensor_tracer/expr/limits.h"

namespace tt::eval {

/// Limits of an expression. They are checked before the expression runs; an expression over a limit
/// is refused.
struct Limits {
  /// Limits of the text.
  expr::Limits text = {};
  /// Dimensions of any value.
  std::int64_t max_rank = 8;
  /// Elements of the result.
  std::int64_t max_result_elements = std::int64_t{1} << 24;
  /// Elements of any intermediate value; a view counts the elements that it shows.
  std::int64_t max_intermediate_elements = std::int64_t{1} << 27;
  /// Bytes of the values that are held at one time, without the inputs. A view keeps its memory
  /// alive.
  std::int64_t max_live_bytes = std::int64_t{1} << 31;
  /// Zeros in the trial run of an operator whose result shape libtorch cannot compute without data.
  std::int64_t max_tried_elements = std::int64_t{1} << 27;
  /// Tensors that one chunk, split or unbind may return.
  std::int64_t max_parts = 1024;
  /// Program::cost() of the whole expression.
  double max_cost = 4e9;
};

}  // namespace tt::eval
