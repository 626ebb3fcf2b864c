#include "src/trace/ranges.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "src/trace/json_fields.h"

namespace tt::trace {
namespace {

using Ends = std::pair<std::int64_t, std::int64_t>;

// "3" or "1-4".
std::optional<Ends> parse_ends(std::string_view text) {
  const auto dash = text.find('-');
  const auto number = [](std::string_view part) -> std::optional<std::int64_t> {
    std::int64_t value = 0;
    const auto [end, code] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (code != std::errc() || end != part.data() + part.size()) return std::nullopt;
    return value;
  };
  const auto first = number(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : number(text.substr(dash + 1));
  if (!first || !last || *first > *last) return std::nullopt;
  return Ends{*first, *last};
}

}  // namespace

base::Result<std::vector<bool>> parse_ranges(const nlohmann::json& text, const NumberRange& allowed,
                                             const std::string& where) {
  const auto not_ranges = [&] {
    return wrong(where, text.dump() + " is not a list of ranges in a text, such as \"1-4,8\"");
  };
  if (!text.is_string()) return not_ranges();
  std::vector<bool> taken(static_cast<std::size_t>(allowed.last) + 1, false);
  const auto ranges = text.get<std::string>();
  std::string_view rest = ranges;
  while (true) {
    const auto comma = rest.find(',');
    const auto ends = parse_ends(rest.substr(0, comma));
    if (!ends) return not_ranges();
    if (ends->first < allowed.first || ends->second > allowed.last) {
      return wrong(where,
                   std::string(rest.substr(0, comma)) + " is outside " +
                       std::to_string(allowed.first) + "-" + std::to_string(allowed.last) +
                       ", the " + allowed.of,
                   allowed.remedy);
    }
    for (std::int64_t n = ends->first; n <= ends->second; ++n) {
      taken[static_cast<std::size_t>(n)] = true;
    }
    if (comma == std::string_view::npos) return taken;
    rest.remove_prefix(comma + 1);
  }
}

base::Result<Ends> parse_window(const nlohmann::json& value, std::int64_t most,
                                const std::string& where) {
  const bool is_pair = value.is_array() && value.size() == 2 &&
                       check_integer(value[0], where, 0, most - 1).ok() &&
                       check_integer(value[1], where, 1, most).ok() && value[0] < value[1];
  if (is_pair) return Ends{value[0].get<std::int64_t>(), value[1].get<std::int64_t>()};
  return wrong(where, value.dump() +
                          " is not [first, end] with 0 <= first < end <= " + std::to_string(most));
}

}  // namespace tt::trace
