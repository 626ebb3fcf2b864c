#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

/// Members of JSON that came from outside: absent or of another kind is nothing. Thread: any.
namespace tt::record {

/// "" if `object` has no such text.
std::string text_of(const nlohmann::json& object, const char* member);
/// A whole number from 0.
std::optional<std::uint64_t> natural(const nlohmann::json& object, const char* member);
/// A number, or the text "NaN", "Infinity" or "-Infinity".
std::optional<double> scalar_of(const nlohmann::json& value);

}  // namespace tt::record
