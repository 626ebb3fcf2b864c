#include "tensor_tracer/dtypes/names.h"

#include <algorithm>
#include <iterator>

#include "tensor_tracer/base/check.h"

namespace tt::dtypes {
namespace {

struct Row {
  std::string_view name;
  c10::ScalarType dtype;
};
constexpr Row kRows[] = {{"float64", c10::kDouble}, {"float32", c10::kFloat},
                         {"float16", c10::kHalf},   {"bfloat16", c10::kBFloat16},
                         {"int64", c10::kLong},     {"int32", c10::kInt},
                         {"int16", c10::kShort},    {"int8", c10::kChar},
                         {"uint8", c10::kByte},     {"bool", c10::kBool}};

}  // namespace

std::optional<c10::ScalarType> find(std::string_view name) {
  const auto* const found = std::ranges::find(kRows, name, &Row::name);
  return found == std::end(kRows) ? std::nullopt : std::optional(found->dtype);
}

c10::ScalarType named(std::string_view name) {
  const auto found = find(name);
  TT_CHECK(found.has_value(), "no dtype " + std::string(name));
  return *found;
}

std::string name_of(c10::ScalarType dtype) {
  const auto* const found = std::ranges::find(kRows, dtype, &Row::dtype);
  return found == std::end(kRows) ? c10::toString(dtype) : std::string(found->name);
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const Row& row : kRows) all.emplace_back(row.name);
  return all;
}

}  // namespace tt::dtypes
