#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "tensor_tracer/points/place_table.h"
#include "tensor_tracer/trace/compressor.h"
#include "tensor_tracer/trace/plan.h"

namespace tt::trace {

/// Rows or tokens that an entry takes of a pass; none where size() <= 0.
struct Window {
  std::int64_t first = 0, end = 0;
  std::int64_t size() const { return end - first; }
};
Window row_window(const PlanEntry& entry, std::int64_t batch);
Window token_window(const PlanEntry& entry, std::int64_t tokens);

/// What an entry takes of a captured tensor of these local sizes, in logical terms; nothing where
/// rows or tokens lie beyond it. The same on every rank.
std::optional<LogicalShape> logical_shape(const PlanEntry& entry, const points::Place& point,
                                          at::IntArrayRef local_sizes, int ranks);

/// The captured rows and tokens of a local tensor, as float or double: [rows, lines, columns],
/// columns next to each other.
at::Tensor local_numbers(const PlanEntry& entry, const LogicalShape& shape,
                         const at::Tensor& local);

/// The same of InputTokens, [2, batch, sequence] of int64, as int32 or int64, contiguous.
at::Tensor local_integers(const PlanEntry& entry, const at::Tensor& local);

/// Copies a tensor of any device to host memory of as many bytes.
void copy_to_host(const at::Tensor& integers, std::byte* bytes);

}  // namespace tt::trace
