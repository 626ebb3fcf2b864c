#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

/// Members of JSON that came from outside. A member that is absent or of another kind reads as
/// nothing. The same holds for every member of JSON that is not an object. Thread: any.
namespace tt::protocol {

/// Null if there is no such member. Owner: `object`, or the program's static memory.
const nlohmann::json& member(const nlohmann::json& object, std::string_view name);
/// "" if `object` has no such member, or if the member is not a text.
std::string text_of(const nlohmann::json& object, std::string_view name);
/// A whole number from 0.
std::optional<std::uint64_t> natural(const nlohmann::json& object, std::string_view name);
/// A number, or the text "NaN", "Infinity" or "-Infinity", as encode_json() writes it.
std::optional<double> number_of(const nlohmann::json& value);

}  // namespace tt::protocol
