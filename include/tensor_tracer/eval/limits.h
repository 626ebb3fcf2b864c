#pragma once

#include <cstdint>

#include "tensor_tracer/expr/limits.h"

namespace tt::eval {

/// What an expression may cost. All of it is known before anything runs, and refused if too much.
struct Limits {
  /// Of what is typed.
  expr::Limits text = {};
  /// Dimensions of any value.
  std::int64_t max_rank = 8;
  /// Elements of the result.
  std::int64_t max_result_elements = std::int64_t{1} << 24;
  /// Elements of any value on the way; a view counts as what it shows.
  std::int64_t max_intermediate_elements = std::int64_t{1} << 27;
  /// Bytes of the values that are held at one time, the inputs left out. The memory of a view is
  /// held as long as the view.
  std::int64_t max_live_bytes = std::int64_t{1} << 31;
  /// Zeros on which one operator is tried whose shape libtorch does not tell without data.
  std::int64_t max_tried_elements = std::int64_t{1} << 27;
  /// Tensors that one chunk, split or unbind may give.
  std::int64_t max_parts = 1024;
  /// Program::cost() of the whole expression.
  double max_cost = 4e9;
};

}  // namespace tt::eval
