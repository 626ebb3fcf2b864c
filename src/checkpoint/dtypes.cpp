#include "src/checkpoint/dtypes.h"

#include <algorithm>
#include <iterator>

namespace tt::checkpoint {
namespace {

struct DtypeName {
  c10::ScalarType dtype;
  const char* name;
};
constexpr DtypeName kDtypeNames[] = {
    {c10::kDouble, "F64"}, {c10::kFloat, "F32"}, {c10::kHalf, "F16"},  {c10::kBFloat16, "BF16"},
    {c10::kLong, "I64"},   {c10::kInt, "I32"},   {c10::kShort, "I16"}, {c10::kChar, "I8"},
    {c10::kByte, "U8"},    {c10::kBool, "BOOL"}};

}  // namespace

std::optional<std::string> safetensors_name(c10::ScalarType dtype) {
  const auto* found = std::ranges::find(kDtypeNames, dtype, &DtypeName::dtype);
  if (found == std::end(kDtypeNames)) return std::nullopt;
  return found->name;
}

std::optional<c10::ScalarType> dtype_of_safetensors(std::string_view name) {
  const auto* found = std::ranges::find(kDtypeNames, name, &DtypeName::name);
  if (found == std::end(kDtypeNames)) return std::nullopt;
  return found->dtype;
}

}  // namespace tt::checkpoint
