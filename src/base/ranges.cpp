#include "tensor_tracer/base/ranges.h"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace tt::base {
namespace {

std::optional<std::int64_t> parse_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// "3" or "1-4".
std::optional<Range> parse_range(std::string_view text) {
  const auto dash = text.find('-');
  const auto first = parse_number(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_number(text.substr(dash + 1));
  if (!first || !last || *first > *last) return std::nullopt;
  return Range{*first, *last};
}

}  // namespace

std::optional<std::vector<Range>> parse_ranges(std::string_view text) {
  std::vector<Range> ranges;
  while (true) {
    const auto comma = text.find(',');
    const auto range = parse_range(text.substr(0, comma));
    if (!range) return std::nullopt;
    ranges.push_back(*range);
    if (comma == std::string_view::npos) return ranges;
    text.remove_prefix(comma + 1);
  }
}

std::optional<std::set<std::uint16_t>> parse_numbers(std::string_view text) {
  auto ranges = parse_ranges(text);
  if (!ranges) return std::nullopt;
  // Sorted, so that each number is visited once, even if a text from outside repeats it.
  std::sort(ranges->begin(), ranges->end());
  std::set<std::uint16_t> numbers;
  std::int64_t next = 0;
  for (const auto& [first, last] : *ranges) {
    if (last > UINT16_MAX) return std::nullopt;
    for (next = std::max(next, first); next <= last; ++next)
      numbers.insert(numbers.end(), static_cast<std::uint16_t>(next));
  }
  return numbers;
}

}  // namespace tt::base
