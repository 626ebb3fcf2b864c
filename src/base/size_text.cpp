#include "tensor_tracer/base/size_text.h"

#include <fmt/format.h>

#include <cstddef>

namespace tt::base {

std::string size_text(std::uint64_t bytes) {
  constexpr double kUnit = 1024;
  double size = static_cast<double>(bytes) / kUnit;
  const char* const units[] = {"kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  while (size >= kUnit && unit + 1 < std::size(units)) {
    size /= kUnit;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", size, size < 10 && size != static_cast<int>(size) ? 1 : 0,
                     units[unit]);
}

std::string with_commas(std::int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

}  // namespace tt::base
