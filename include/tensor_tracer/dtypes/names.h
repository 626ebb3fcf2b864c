#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The dtypes of this program, by PyTorch's names. Thread: any.
namespace tt::dtypes {

/// The dtype of a name such as "bfloat16"; nullopt: no dtype of this program has the name.
std::optional<c10::ScalarType> find(std::string_view name);
/// The same. REQUIRES: find(name) has a value.
c10::ScalarType named(std::string_view name);
/// PyTorch's name of a dtype. A dtype that this program does not use has libtorch's name, such as
/// "ComplexFloat".
std::string name_of(c10::ScalarType dtype);
/// All names.
std::vector<std::string> names();

}  // namespace tt::dtypes
