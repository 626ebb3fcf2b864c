#pragma once

#include <cstdint>
#include <memory>

#include "tensor_tracer/trace/compressor.h"

namespace tt::trace {

/// For scores of a vocabulary. [2 + planes, rows, lines, k]: the k best scores of each line, their
/// columns, then four numbers of the line's softmax: log-sum-exp, entropy, the loss of the target
/// (log-sum-exp minus its score), all in nats, and the target's column. Number j is number j % k of
/// plane 2 + j / k; NaN fills the last plane. A target that is unknown, or outside the columns, has
/// loss NaN and column -1.
std::shared_ptr<const Packing> make_prediction_packing(std::int64_t k, const LogicalShape& shape,
                                                       bool is_double);

}  // namespace tt::trace
