#include "src/eval/builtins.h"
#include "src/eval/checker.h"

namespace tt::eval {

Value Checker::shape_of(const TensorValue& tensor) {
  recorder_.note_size_read(tensor, Recorder::kAllDims);
  Sequence shape;
  for (const std::int64_t size : tensor.meta.sizes()) shape.items.push_back({size});
  return {std::move(shape)};
}

Value Checker::size_of(const TensorValue& tensor, std::int64_t dim, Span span) {
  const std::int64_t rank = tensor.meta.dim();
  if (dim < -rank || dim >= rank) {
    return fail(span, "there is no dimension " + std::to_string(dim) + " in a tensor of shape " +
                          describe_shape(tensor.meta.sizes()));
  }
  recorder_.note_size_read(tensor, dim);
  return {tensor.meta.size(dim)};
}

Value Checker::call_size(const Call& call, const TensorValue& tensor, std::size_t first_argument) {
  if (call.arguments.size() == first_argument) return shape_of(tensor);
  const Given& given = call.arguments[first_argument];
  const bool is_dim = given.name.empty() || given.name == "dim";
  const auto* dim = given.value.get<std::int64_t>();
  if (!is_dim || dim == nullptr || call.arguments.size() > first_argument + 1) {
    return fail(given.span, "size takes one integer", "it is called as size(dim)");
  }
  return size_of(tensor, *dim, given.span);
}

Value Checker::call_tensor(const Call& call) {
  std::optional<at::ScalarType> dtype;
  const bool has_dtype = call.arguments.size() == 2 && call.arguments[1].name == "dtype" &&
                         call.arguments[1].value.is<at::ScalarType>();
  if (has_dtype) dtype = *call.arguments[1].value.get<at::ScalarType>();
  const bool has_data = !call.arguments.empty() && call.arguments[0].name.empty();
  if (call.self || !has_data || call.arguments.size() != (has_dtype ? 2U : 1U)) {
    return fail(call.name_span, "tensor takes a list of numbers",
                "it is called as tensor([1, 2], dtype=torch.float64)");
  }
  std::string why;
  const auto tensor = make_tensor(call.arguments[0].value, dtype, why);
  if (!tensor) return fail(call.arguments[0].span, why);
  if (!recorder_.check_results({*tensor})) {
    return fail(call.arguments[0].span, "tensor: " + recorder_.problem());
  }
  return {recorder_.constant(*tensor)};
}

Value Checker::call_builtin(const Call& call) {
  if (call.name == "tensor") return call_tensor(call);
  const std::size_t first_argument = call.self ? 0 : 1;
  const bool has_self =
      call.self.has_value() || (!call.arguments.empty() && call.arguments[0].name.empty());
  const Value* self = !has_self ? nullptr : call.self ? &*call.self : &call.arguments[0].value;
  const auto* tensor = self == nullptr ? nullptr : self->get<TensorValue>();
  if (tensor == nullptr) {
    return fail(call.name_span, call.name + " needs a tensor",
                "it is called as data." + call.name + "(); infinity is written inf");
  }
  if (call.name == "size") return call_size(call, *tensor, first_argument);
  if (call.arguments.size() > first_argument) {
    return fail(call.arguments[first_argument].span, call.name + " takes no arguments",
                "it is called as data." + call.name + "()");
  }
  if (call.name == "dim") return {tensor->meta.dim()};
  if (call.name == "numel") {
    recorder_.note_size_read(*tensor, Recorder::kAllDims);
    return {tensor->meta.numel()};
  }
  return apply("to", call.name_span, {*self, {*find_dtype(call.name)}});
}

}  // namespace tt::eval
