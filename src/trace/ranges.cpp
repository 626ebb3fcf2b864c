#include "src/trace/ranges.h"

#include <optional>

#include "src/trace/json_fields.h"
#include "tensor_tracer/base/ranges.h"

namespace tt::trace {
namespace {
using Ends = base::Range;
}  // namespace

base::Result<std::vector<bool>> parse_ranges(const nlohmann::json& text, const NumberRange& allowed,
                                             const std::string& where) {
  const auto ranges =
      text.is_string() ? base::parse_ranges(text.get_ref<const std::string&>()) : std::nullopt;
  if (!ranges) {
    return base::invalid_argument(
        where, text.dump() + " is not a list of ranges in a text, such as \"1-4,8\"");
  }
  std::vector<bool> taken(static_cast<std::size_t>(allowed.last) + 1, false);
  for (const auto& [first, last] : *ranges) {
    if (first < allowed.first || last > allowed.last) {
      const std::string range =
          std::to_string(first) + (first == last ? "" : "-" + std::to_string(last));
      return base::invalid_argument(where,
                                    range + " is outside " + std::to_string(allowed.first) + "-" +
                                        std::to_string(allowed.last) + ", the " + allowed.of,
                                    allowed.remedy);
    }
    for (std::int64_t n = first; n <= last; ++n) {
      taken[static_cast<std::size_t>(n)] = true;
    }
  }
  return taken;
}

base::Result<Ends> parse_window(const nlohmann::json& value, std::int64_t most,
                                const std::string& where) {
  const bool is_pair = value.is_array() && value.size() == 2 &&
                       check_integer(value[0], where, 0, most - 1).ok() &&
                       check_integer(value[1], where, 1, most).ok() && value[0] < value[1];
  if (is_pair) return Ends{value[0].get<std::int64_t>(), value[1].get<std::int64_t>()};
  return base::invalid_argument(
      where,
      value.dump() + " is not [first, end] with 0 <= first < end <= " + std::to_string(most));
}

}  // namespace tt::trace
