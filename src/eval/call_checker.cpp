#include "src/eval/call_checker.h"

#include <algorithm>

#include "src/eval/builtins.h"

namespace tt::eval {
namespace {

// Limit of overloads that the error of a call lists.
constexpr std::size_t kShownForms = 4;

// Finds the overload if this libtorch has it and its schema says that it is pure.
std::optional<c10::OperatorHandle> find_overload(const OperatorRow& row,
                                                 const std::string& overload) {
  const auto op = c10::Dispatcher::singleton().findSchema({"aten::" + row.aten_name, overload});
  if (!op || op->schema().is_mutable()) return std::nullopt;
  return op;
}

struct Candidate {
  const OperatorRow* row;
  c10::OperatorHandle op;
};

std::vector<Candidate> find_candidates(const std::string& name) {
  std::vector<Candidate> candidates;
  for (const OperatorRow* row : find_operator(name)) {
    for (const std::string& overload : row->overloads)
      if (const auto op = find_overload(*row, overload)) candidates.push_back({row, *op});
  }
  return candidates;
}

std::string forms(const std::vector<Candidate>& candidates) {
  std::string text;
  std::vector<std::string> shown;
  for (const Candidate& candidate : candidates) {
    const std::string form = usage(candidate.op.schema(), *candidate.row);
    if (shown.size() == kShownForms || std::ranges::find(shown, form) != shown.end()) continue;
    text += (shown.empty() ? "it is called as " : " or ") + form;
    shown.push_back(form);
  }
  return text;
}

}  // namespace

Value CallChecker::fail(expr::Span span, std::string what, std::string remedy) {
  if (!problem_) problem_ = expr::Problem{span, std::move(what), std::move(remedy)};
  return {};
}

Value CallChecker::shape_of(const TensorValue& tensor) {
  recorder_.note_size_read(tensor, Recorder::kAllDims);
  Sequence shape;
  for (const std::int64_t size : tensor.meta.sizes()) shape.items.push_back({size});
  return {std::move(shape)};
}

Value CallChecker::size_of(const TensorValue& tensor, std::int64_t dim, expr::Span span) {
  const std::int64_t rank = tensor.meta.dim();
  if (dim < -rank || dim >= rank) {
    return fail(span, "there is no dimension " + std::to_string(dim) + " in a tensor of shape " +
                          describe_shape(tensor.meta.sizes()));
  }
  recorder_.note_size_read(tensor, dim);
  return {tensor.meta.size(dim)};
}

Value CallChecker::call_size(const Call& call, const TensorValue& tensor,
                             std::size_t first_argument) {
  if (call.arguments.size() == first_argument) return shape_of(tensor);
  const Given& given = call.arguments[first_argument];
  const bool is_dim = given.name.empty() || given.name == "dim";
  const auto* dim = given.value.get<std::int64_t>();
  if (!is_dim || dim == nullptr || call.arguments.size() > first_argument + 1)
    return fail(given.span, "size takes one integer", "it is called as size(dim)");
  return size_of(tensor, *dim, given.span);
}

Value CallChecker::call_tensor(const Call& call) {
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
  if (!recorder_.check_results({*tensor}))
    return fail(call.arguments[0].span, "tensor: " + recorder_.problem());
  return {recorder_.constant(*tensor)};
}

Value CallChecker::call_builtin(const Call& call) {
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

Value CallChecker::call(const Call& call) {
  return is_builtin(call.name) ? call_builtin(call) : call_operator(call);
}

Value CallChecker::call_operator(const Call& call) {
  Mismatch nearest;
  bool has_mismatch = false;
  for (const Candidate& candidate : find_candidates(call.name)) {
    Mismatch mismatch;
    auto arguments = bind(candidate.op.schema(), *candidate.row, call, mismatch);
    if (arguments) return call_overload(call, *candidate.row, candidate.op, std::move(*arguments));
    if (!has_mismatch || mismatch.progress > nearest.progress) nearest = mismatch;
    has_mismatch = true;
  }
  return refuse_call(call, nearest);
}

Value CallChecker::refuse_call(const Call& call, const Mismatch& mismatch) {
  const auto candidates = find_candidates(call.name);
  if (candidates.empty())
    return fail(call.name_span, "this libtorch has no operator \"" + call.name + "\"");
  std::vector<std::string> names;
  for (const Candidate& candidate : candidates)
    for (std::string& name : keyword_names(candidate.op.schema(), *candidate.row))
      names.push_back(std::move(name));
  for (const Given& given : call.arguments) {
    if (given.name.empty() || std::ranges::find(names, given.name) != names.end()) continue;
    return fail(
        given.name_span,
        call.name + " has no argument \"" + given.name + "\"" + expr::suggestion(given.name, names),
        forms(candidates));
  }
  return fail(mismatch.span, mismatch.what, forms(candidates));
}

Value CallChecker::call_overload(const Call& call, const OperatorRow& row,
                                 const c10::OperatorHandle& op,
                                 std::vector<PlanArgument> arguments) {
  auto results = recorder_.call(row, op, std::move(arguments), call.name_span);
  if (!results) return fail(call.name_span, call.name + ": " + recorder_.problem());
  const auto& returns = op.schema().returns();
  if (returns.size() == 1 && returns[0].type()->kind() == c10::TypeKind::TensorType)
    return {results->front()};
  Sequence sequence;
  for (TensorValue& result : *results) sequence.items.push_back({std::move(result)});
  for (const c10::Argument& named : returns)
    if (!named.name().empty()) sequence.names.push_back(named.name());
  return {std::move(sequence)};
}

Value CallChecker::apply(const std::string& name, expr::Span span, std::vector<Value> arguments) {
  if (problem_) return {};
  Call call{name, std::nullopt, span, span, {}};
  for (Value& argument : arguments) call.arguments.push_back({std::move(argument), span, "", {}});
  return call_operator(call);
}

}  // namespace tt::eval
