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

/// The numbers of the argument "dim" or "dims"; nullopt if the call has no such argument.
std::optional<std::vector<std::int64_t>> find_dims(const c10::FunctionSchema& schema,
                                                   const std::vector<PlanArgument>& arguments);

/// The results' shapes and dtypes of an elementwise operator. The shape is the broadcast shape. The
/// dtype depends only on dtypes and on which arguments have dimensions, so a run on one element of
/// each argument gives it. Throws the exceptions of ATen.
std::vector<at::Tensor> run_on_single_ones(const c10::OperatorHandle& op,
                                           const std::vector<PlanArgument>& arguments,
                                           const std::vector<at::Tensor>& metas);

/// The same for an operator that reduces all numbers of its first tensor to one number: runs on a
/// single zero. Nullopt if the result is not one number. Throws the exceptions of ATen.
std::optional<std::vector<at::Tensor>> run_on_small_zeros(
    const c10::OperatorHandle& op, const std::vector<PlanArgument>& arguments,
    const std::vector<at::Tensor>& metas);

/// The same for any operator: runs on zeros that take no memory. If the operator acts only along
/// `dims` of its first tensor, the other dimensions of that tensor are set to 1. Throws the
/// exceptions of ATen, and throws if more than `max_zeros` zeros are needed.
std::vector<at::Tensor> run_on_zeros(const c10::OperatorHandle& op,
                                     const std::vector<PlanArgument>& arguments,
                                     const std::vector<at::Tensor>& metas,
                                     const std::optional<std::vector<std::int64_t>>& dims,
                                     std::int64_t max_zeros);

}  // namespace tt::eval
