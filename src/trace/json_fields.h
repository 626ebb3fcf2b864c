#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tensor_tracer/base/result.h"

/// Functions that read the JSON of plans. Every error has code "invalid_argument" and names the
/// JSON member (`where`).
namespace tt::trace {

base::Status refuse_unknown_keys(const nlohmann::json& object, const std::string& where,
                                 std::initializer_list<std::string_view> known);

/// Reads a whole number in [least, most] under `key`. If the key is missing, `out` does not change.
base::Status parse_integer(const nlohmann::json& object, const char* key, const std::string& where,
                           std::int64_t least, std::int64_t most, std::int64_t& out);

/// Checks that `value` is a whole number in [least, most].
base::Status check_integer(const nlohmann::json& value, const std::string& where,
                           std::int64_t least, std::int64_t most);

}  // namespace tt::trace
