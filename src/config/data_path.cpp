#include <charconv>
#include <cmath>
#include <optional>

#include "tensor_tracer/config/train_config.h"

namespace tt::config {
namespace {

std::optional<double> number_of(const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return value;
}

}  // namespace

base::Result<std::vector<DataPart>> parse_data_path(const std::vector<std::string>& values) {
  if (values.empty() || !number_of(values.front())) return std::vector<DataPart>{{1.0, values}};
  std::vector<DataPart> parts;
  for (std::size_t i = 0; i < values.size(); i += 2) {
    const auto weight = number_of(values[i]);
    if (!weight) {
      return base::invalid_argument("--data-path",
                                    "\"" + values[i] + "\" stands where a weight is expected",
                                    "give a weight before each path, or none at all");
    }
    if (!(*weight > 0) || !std::isfinite(*weight)) {
      return base::invalid_argument("--data-path", "the weight " + values[i] + " is not above 0",
                                    "leave the dataset out, or give it a weight");
    }
    if (i + 1 == values.size()) {
      return base::invalid_argument("--data-path", "there is no path after the weight " + values[i],
                                    "give one; a file with this name is ./" + values[i]);
    }
    parts.push_back({*weight, {values[i + 1]}});
  }
  return parts;
}

}  // namespace tt::config
