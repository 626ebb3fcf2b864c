#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/eval/value.h"

namespace tt::eval {

/// Functions that are not ATen operators of the same name: sizes, casts and tensor(...).
const std::vector<std::string>& builtin_names();
bool is_builtin(std::string_view name);

/// torch.float64 and the other dtypes.
std::optional<at::ScalarType> find_dtype(std::string_view name);
std::vector<std::string> dtype_names();

/// inf, nan, pi, e.
std::optional<double> find_constant(std::string_view name);

/// torch.tensor of a number or of nested lists of numbers, on the CPU. Returns nullopt and sets
/// `problem` if an item is not a number or the lists have different lengths.
std::optional<at::Tensor> make_tensor(const Value& value, std::optional<at::ScalarType> dtype,
                                      std::string& problem);

}  // namespace tt::eval
