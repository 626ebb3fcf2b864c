#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "src/eval/plan.h"

namespace tt::eval {

/// A tensor without data.
at::Tensor meta_like(at::IntArrayRef shape, at::ScalarType dtype);

/// The slots that a call reads, in order.
std::vector<std::uint32_t> slots_of(const std::vector<PlanArgument>& arguments);

/// The numbers of the argument "dim" or "dims"; nothing if it is left out.
std::optional<std::vector<std::int64_t>> find_dims(const c10::FunctionSchema& schema,
                                                   const std::vector<PlanArgument>& arguments);

/// The results' shapes and dtypes of an element-wise operator: the shape is that of broadcasting,
/// and the dtype depends on dtypes and on which arguments have dimensions at all, so one element of
/// each tells it. Throws what ATen throws.
std::vector<at::Tensor> run_on_single_ones(const c10::OperatorHandle& op,
                                           const std::vector<PlanArgument>& arguments,
                                           const std::vector<at::Tensor>& metas);

/// The same of an operator that makes one number of all that its first tensor holds, tried on one
/// zero; nothing if it makes something else of that. Throws what ATen throws.
std::optional<std::vector<at::Tensor>> run_on_small_zeros(
    const c10::OperatorHandle& op, const std::vector<PlanArgument>& arguments,
    const std::vector<at::Tensor>& metas);

/// The same of any operator, run on zeros that take no memory. Where it acts along `dims` of its
/// first tensor alone, all other dimensions of that are taken as 1. Throws what ATen throws, and
/// where that would be more zeros.
std::vector<at::Tensor> run_on_zeros(const c10::OperatorHandle& op,
                                     const std::vector<PlanArgument>& arguments,
                                     const std::vector<at::Tensor>& metas,
                                     const std::optional<std::vector<std::int64_t>>& dims,
                                     std::int64_t max_zeros);

}  // namespace tt::eval
