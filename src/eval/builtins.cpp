#include "src/eval/builtins.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numbers>

#include "tensor_tracer/dtypes/names.h"

namespace tt::eval {
namespace {

struct DtypeAlias {
  std::string_view alias, name;
};

constexpr std::array kDtypeAliases = {
    DtypeAlias{"float", "float32"}, DtypeAlias{"double", "float64"}, DtypeAlias{"half", "float16"},
    DtypeAlias{"long", "int64"}, DtypeAlias{"int", "int32"}};

// The numbers of a nested list, row by row.
struct Flat {
  std::vector<std::int64_t> shape;
  std::vector<Value> numbers;
};

bool flatten(const Value& value, std::size_t depth, Flat& flat) {
  const auto* sequence = value.get<Sequence>();
  if (sequence == nullptr) {
    flat.numbers.push_back(value);
    return value.is_number() && depth == flat.shape.size();
  }
  const auto length = static_cast<std::int64_t>(sequence->items.size());
  if (depth == flat.shape.size() && flat.numbers.empty()) flat.shape.push_back(length);
  if (depth >= flat.shape.size() || flat.shape[depth] != length) return false;
  return std::ranges::all_of(sequence->items,
                             [&](const Value& item) { return flatten(item, depth + 1, flat); });
}

at::Tensor numbers_to_tensor(const std::vector<Value>& numbers) {
  const auto all = [&](auto test) { return std::ranges::all_of(numbers, test); };
  const bool has_double = !all([](const Value& v) { return !v.is<double>(); });
  if (has_double || numbers.empty()) {
    std::vector<double> values;
    for (const Value& number : numbers) values.push_back(number.to_double());
    return at::tensor(values, at::device(at::kCPU).dtype(at::kDouble));
  }
  std::vector<std::int64_t> values;
  for (const Value& number : numbers) values.push_back(number.to_integer());
  const at::Tensor tensor = at::tensor(values, at::device(at::kCPU).dtype(at::kLong));
  return all([](const Value& v) { return v.is<bool>(); }) ? tensor.to(at::kBool) : tensor;
}

}  // namespace

const std::vector<std::string>& builtin_names() {
  static const std::vector<std::string> names = {"size",   "dim",  "numel",    "float",
                                                 "double", "half", "bfloat16", "int",
                                                 "long",   "bool", "tensor"};
  return names;
}

bool is_builtin(std::string_view name) {
  return std::ranges::find(builtin_names(), name) != builtin_names().end();
}

std::optional<at::ScalarType> find_dtype(std::string_view name) {
  const auto found = std::ranges::find(kDtypeAliases, name, &DtypeAlias::alias);
  return dtypes::find(found == kDtypeAliases.end() ? name : found->name);
}

std::vector<std::string> dtype_names() {
  std::vector<std::string> names = dtypes::names();
  for (const DtypeAlias& dtype : kDtypeAliases) names.emplace_back(dtype.alias);
  return names;
}

std::optional<double> find_constant(std::string_view name) {
  if (name == "inf") return std::numeric_limits<double>::infinity();
  if (name == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (name == "pi") return std::numbers::pi;
  if (name == "e") return std::numbers::e;
  return std::nullopt;
}

std::optional<at::Tensor> make_tensor(const Value& value, std::optional<at::ScalarType> dtype,
                                      std::string& problem) {
  Flat flat;
  if (!flatten(value, 0, flat)) {
    problem = "tensor takes a number or nested lists of numbers of one length";
    return std::nullopt;
  }
  const at::Tensor tensor = numbers_to_tensor(flat.numbers).reshape(flat.shape);
  if (dtype) return tensor.to(*dtype);
  return tensor.scalar_type() == at::kDouble ? tensor.to(at::kFloat) : tensor;
}

}  // namespace tt::eval
