#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "tensor_tracer/points/place_table.h"
#include "tensor_tracer/trace/compressor.h"
#include "tensor_tracer/trace/plan.h"

namespace tt::trace {

/// Rows or tokens that an entry takes from a pass; empty if size() <= 0.
struct Window {
  std::int64_t first = 0, end = 0;
  std::int64_t size() const { return end - first; }
};
Window row_window(const PlanEntry& entry, std::int64_t batch);
Window token_window(const PlanEntry& entry, std::int64_t tokens);

/// The logical shape of the part that an entry takes from a captured tensor with these local sizes;
/// nullopt if its rows or tokens lie outside the tensor. The same on every rank.
std::optional<LogicalShape> logical_shape(const PlanEntry& entry, const points::Place& point,
                                          at::IntArrayRef local_sizes, int ranks);

/// The captured rows and tokens of a local tensor, as float or double: [rows, lines, columns]; the
/// columns are contiguous. On a device bfloat16 and float16 stay: its kernels read them.
at::Tensor local_numbers(const PlanEntry& entry, const LogicalShape& shape,
                         const at::Tensor& local);

/// The captured part of targets, int64 [batch, sequence]: row by row.
std::vector<std::int64_t> captured_targets(const PlanEntry& entry, const at::Tensor& targets);

/// The captured part of InputTokens, int64 [2, batch, sequence], as int32 or int64, contiguous.
at::Tensor local_integers(const PlanEntry& entry, const at::Tensor& local);

/// Copies a tensor. `bytes` has room for the whole tensor, on its device.
void copy_integers(const at::Tensor& integers, std::byte* bytes);

}  // namespace tt::trace
