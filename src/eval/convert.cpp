#include "src/eval/convert.h"

#include <ATen/ATen.h>
#include <ATen/ScalarOps.h>

namespace tt::eval {
namespace {

using c10::TypeKind;

c10::IValue to_ivalue(const Value& number) {
  if (const auto* value = number.get<bool>()) return *value;
  if (const auto* value = number.get<std::int64_t>()) return *value;
  return *number.get<double>();
}

std::optional<PlanArgument> to_tensor(const Value& value, const OperatorRow& row) {
  if (const auto* tensor = value.get<TensorValue>()) return Slot{tensor->slot};
  if (!row.has(kNumbers) || !value.is_number()) return std::nullopt;
  return c10::IValue(at::native::wrapped_scalar_tensor(to_ivalue(value).toScalar()));
}

std::optional<PlanArgument> to_int_list(const Value& value, std::optional<std::int32_t> count) {
  std::vector<std::int64_t> numbers;
  if (const auto* sequence = value.get<Sequence>()) {
    for (const Value& item : sequence->items) {
      if (!item.is<std::int64_t>()) return std::nullopt;
      numbers.push_back(*item.get<std::int64_t>());
    }
    return c10::IValue(numbers);
  }
  if (!value.is<std::int64_t>() || !count) return std::nullopt;
  numbers.assign(static_cast<std::size_t>(*count), *value.get<std::int64_t>());
  return c10::IValue(numbers);
}

std::optional<PlanArgument> to_float_list(const Value& value) {
  const auto* sequence = value.get<Sequence>();
  if (sequence == nullptr) return std::nullopt;
  std::vector<double> numbers;
  for (const Value& item : sequence->items) {
    if (!item.is_number()) return std::nullopt;
    numbers.push_back(item.to_double());
  }
  return c10::IValue(numbers);
}

std::optional<PlanArgument> to_tensor_list(const Value& value) {
  const auto* sequence = value.get<Sequence>();
  if (sequence == nullptr) return std::nullopt;
  SlotList slots;
  for (const Value& item : sequence->items) {
    const auto* tensor = item.get<TensorValue>();
    if (tensor == nullptr) return std::nullopt;
    slots.push_back({tensor->slot});
  }
  return slots;
}

std::optional<PlanArgument> to_list(const Value& value, const c10::ListType& type,
                                    const c10::Argument& argument) {
  switch (type.getElementType()->kind()) {
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      return to_int_list(value, argument.N());
    case TypeKind::FloatType:
      return to_float_list(value);
    case TypeKind::TensorType:
      return to_tensor_list(value);
    default:
      return std::nullopt;
  }
}

const c10::Type* without_optional(const c10::TypePtr& type, c10::TypePtr& owner) {
  owner = type;
  if (const auto optional = type->cast<c10::OptionalType>()) owner = optional->getElementType();
  return owner.get();
}

std::optional<PlanArgument> to_dtype(const Value& value) {
  const auto* dtype = value.get<at::ScalarType>();
  if (dtype == nullptr) return std::nullopt;
  return c10::IValue(static_cast<std::int64_t>(*dtype));
}

}  // namespace

std::optional<PlanArgument> convert(const Value& value, const c10::Argument& argument,
                                    const OperatorRow& row) {
  c10::TypePtr owner;
  const c10::Type* type = without_optional(argument.type(), owner);
  if (value.is<None>()) {
    if (argument.type()->kind() != TypeKind::OptionalType) return std::nullopt;
    return c10::IValue();
  }
  if (argument.name() == "dtype") return to_dtype(value);
  switch (type->kind()) {
    case TypeKind::TensorType:
      return to_tensor(value, row);
    case TypeKind::ListType:
      return to_list(value, *type->cast<c10::ListType>(), argument);
    case TypeKind::NumberType:
      if (value.is_number()) return to_ivalue(value);
      // torch.norm takes "fro" for 2.
      if (row.name == "norm" && value.is<std::string>() && *value.get<std::string>() == "fro")
        return c10::IValue(std::int64_t{2});
      return std::nullopt;
    case TypeKind::FloatType:
      if (value.is_number()) return c10::IValue(value.to_double());
      return std::nullopt;
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      if (value.is<std::int64_t>()) return to_ivalue(value);
      return std::nullopt;
    case TypeKind::BoolType:
      if (value.is<bool>()) return to_ivalue(value);
      return std::nullopt;
    case TypeKind::StringType:
      if (value.is<std::string>()) return c10::IValue(*value.get<std::string>());
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

std::string expected_kind(const c10::Argument& argument) {
  if (argument.name() == "dtype") return "a dtype such as torch.float64";
  c10::TypePtr owner;
  switch (without_optional(argument.type(), owner)->kind()) {
    case TypeKind::TensorType:
      return "a tensor";
    case TypeKind::NumberType:
    case TypeKind::FloatType:
      return "a number";
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      return "an integer";
    case TypeKind::BoolType:
      return "True or False";
    case TypeKind::StringType:
      return "a string";
    case TypeKind::ListType:
      switch (owner->cast<c10::ListType>()->getElementType()->kind()) {
        case TypeKind::TensorType:
          return "a list of tensors";
        case TypeKind::FloatType:
          return "a list of numbers";
        default:
          return argument.N() ? "an integer or a list of them" : "a list of integers";
      }
    default:
      return "something else";
  }
}

}  // namespace tt::eval
