#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <string_view>

namespace tt::checkpoint {

/// The name that safetensors files give a dtype; nothing: the format, or this reader, has no such
/// dtype.
std::optional<std::string> safetensors_name(c10::ScalarType dtype);
std::optional<c10::ScalarType> dtype_of_safetensors(std::string_view name);

}  // namespace tt::checkpoint
