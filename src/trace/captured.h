#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "tensor_tracer/points/place_table.h"
#include "tensor_tracer/trace/compressor.h"
#include "tensor_tracer/trace/plan.h"

namespace tt::trace {

/// What an entry takes of a captured tensor of these local sizes, in logical terms; nothing where
/// rows or tokens lie beyond it. The same on every rank.
std::optional<LogicalShape> logical_shape(const PlanEntry& entry, const points::Place& point,
                                          at::IntArrayRef local_sizes, int ranks);

/// The wanted rows and tokens of a local tensor, as float or double.
struct LocalNumbers {
  at::Tensor owner;  // keeps `view` alive
  LocalTensor view;
};
LocalNumbers local_numbers(const PlanEntry& entry, const LogicalShape& shape,
                           const at::Tensor& local);

/// The same of InputTokens, [2, batch, sequence] of int64, as int32 or int64 next to each other.
at::Tensor local_integers(const PlanEntry& entry, const at::Tensor& local);

}  // namespace tt::trace
