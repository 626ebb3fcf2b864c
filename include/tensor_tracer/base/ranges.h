#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace tt::base {

/// First and last number, both included.
using Range = std::pair<std::int64_t, std::int64_t>;

/// Parses text such as "1-4,8" (docs/protocol.md). Nothing if the text is not such a list. Thread:
/// any.
std::optional<std::vector<Range>> parse_ranges(std::string_view text);

/// The numbers that such a list names. Also nothing if a number is above 65535.
std::optional<std::set<std::uint16_t>> parse_numbers(std::string_view text);

}  // namespace tt::base
