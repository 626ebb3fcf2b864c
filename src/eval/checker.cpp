#include "src/eval/checker.h"

#include <array>

#include "src/eval/builtins.h"
#include "src/eval/scalar.h"

namespace tt::eval {
namespace {

using expr::Kind;
using expr::Operator;

// The ATen operator of each one of the syntax, by Operator's value.
constexpr std::array<const char*, 21> kAtenNames = {
    "",    "add",    "sub",         "mul",        "div",         "floor_divide", "remainder",
    "pow", "matmul", "bitwise_and", "bitwise_or", "bitwise_xor", "eq",           "ne",
    "lt",  "le",     "gt",          "ge",         "neg",         "positive",     "bitwise_not"};

std::string aten_name(Operator op) { return kAtenNames[static_cast<std::size_t>(op)]; }

// a < b is b > a.
Operator mirrored(Operator op) {
  switch (op) {
    case Operator::kLess:
      return Operator::kGreater;
    case Operator::kLessEqual:
      return Operator::kGreaterEqual;
    case Operator::kGreater:
      return Operator::kLess;
    case Operator::kGreaterEqual:
      return Operator::kLessEqual;
    default:
      return op;
  }
}

std::optional<std::int64_t> to_bound(const Value& value, bool& is_valid) {
  if (const auto* integer = value.get<std::int64_t>()) return *integer;
  is_valid = is_valid && value.is<None>();
  return std::nullopt;
}

}  // namespace

std::optional<TensorValue> Checker::check(NodeId root, bool takes_number) {
  const Value value = evaluate(root);
  if (problem_) return std::nullopt;
  if (const auto* tensor = value.get<TensorValue>()) return *tensor;
  if (takes_number && value.is_number()) {
    std::string why;
    const auto dtype = value.is<double>() ? std::optional(at::kDouble) : std::nullopt;
    const auto number = make_tensor(value, dtype, why);
    if (number) mark_number(*number);
    if (number) return recorder_.constant(*number);
  }
  const auto* sequence = value.get<Sequence>();
  std::string remedy = "an expression gives one tensor";
  if (sequence != nullptr && !sequence->names.empty()) {
    remedy = "take one of them, for example ." + sequence->names.front();
  } else if (sequence != nullptr) {
    remedy = "take one of them, for example [0], or write stack(...)";
  } else if (value.is<Callable>()) {
    remedy = "call it: add parentheses";
  }
  fail(ast_.node(root).span, "the expression gives " + describe(value) + ", not a tensor", remedy);
  return std::nullopt;
}

Value Checker::fail(Span span, std::string what, std::string remedy) {
  if (!problem_) problem_ = expr::Problem{span, std::move(what), std::move(remedy)};
  return {};
}

Value Checker::substitute(const Substitution& known) const {
  if (const auto* input = std::get_if<std::size_t>(&known)) return {recorder_.input(*input)};
  return {std::get<std::int64_t>(known)};
}

Value Checker::evaluate(NodeId id) {
  if (problem_) return {};
  const auto known = known_.find(id);
  return known != known_.end() ? substitute(known->second) : evaluate_node(ast_.node(id));
}

Value Checker::evaluate_node(const Node& node) {
  switch (node.kind) {
    case Kind::kInt:
      return {node.integer};
    case Kind::kFloat:
      return {node.real};
    case Kind::kString:
      return {node.text};
    case Kind::kTrue:
      return {true};
    case Kind::kFalse:
      return {false};
    case Kind::kNone:
      return {None{}};
    case Kind::kEllipsis:
      return {Ellipsis{}};
    case Kind::kName:
      return evaluate_name(node);
    case Kind::kAttribute:
      return evaluate_attribute(node);
    case Kind::kCall:
      return evaluate_call(node);
    case Kind::kKeyword:
      return evaluate(node.children[0]);
    case Kind::kIndex:
      return evaluate_index(node);
    case Kind::kSlice:
      return evaluate_slice(node);
    case Kind::kTuple:
    case Kind::kList:
      return evaluate_sequence(node);
    case Kind::kUnary:
      return evaluate_unary(node);
    case Kind::kBinary:
      return evaluate_binary(node);
  }
  return {};
}

Value Checker::evaluate_sequence(const Node& node) {
  Sequence sequence;
  for (const NodeId child : node.children) sequence.items.push_back(evaluate(child));
  return {std::move(sequence)};
}

Value Checker::evaluate_slice(const Node& node) {
  const auto part = [&](std::size_t index) {
    return node.children[index] == expr::kNoNode ? Value{} : evaluate(node.children[index]);
  };
  bool is_valid = true;
  Slice slice;
  slice.start = to_bound(part(0), is_valid);
  slice.stop = to_bound(part(1), is_valid);
  slice.step = to_bound(part(2), is_valid);
  if (problem_) return {};
  if (!is_valid) return fail(node.span, "the parts of a slice are integers");
  if (slice.step.value_or(1) <= 0) {
    return fail(node.span, "the step of a slice is positive",
                "to turn the order round, write flip(data, (-1,))");
  }
  return {slice};
}

Value Checker::evaluate_unary(const Node& node) {
  const Value operand = evaluate(node.children[0]);
  if (problem_) return {};
  if (operand.is<TensorValue>()) return apply(aten_name(node.op), node.name_span, {operand});
  if (!operand.is_number()) {
    return fail(node.name_span, "this operator does not work on " + describe(operand));
  }
  std::string why;
  const auto result = calculate(node.op, operand, why);
  return result ? *result : fail(node.name_span, why);
}

// As PyTorch's Python classes have it where the number stands on the left.
Value Checker::reflected(const Node& node, const Value& number, const Value& tensor) {
  const Span span = node.name_span;
  switch (node.op) {
    case Operator::kSubtract:
      return apply("rsub", span, {tensor, number});
    case Operator::kDivide: {
      const Value inverse = apply("reciprocal", span, {tensor});
      return apply("mul", span, {inverse, number});
    }
    case Operator::kFloorDivide:
    case Operator::kRemainder:
    case Operator::kPower:
      return apply(aten_name(node.op), span, {number, tensor});
    default:
      return apply(aten_name(mirrored(node.op)), span, {tensor, number});
  }
}

Value Checker::evaluate_binary(const Node& node) {
  const Value left = evaluate(node.children[0]);
  const Value right = evaluate(node.children[1]);
  if (problem_) return {};
  if (left.is<TensorValue>() && (right.is<TensorValue>() || right.is_number())) {
    return apply(aten_name(node.op), node.name_span, {left, right});
  }
  if (left.is_number() && right.is<TensorValue>()) return reflected(node, left, right);
  if (left.is_number() && right.is_number()) {
    std::string why;
    const auto result = calculate(node.op, left, right, why);
    return result ? *result : fail(node.name_span, why);
  }
  if (node.op == Operator::kAdd && left.is<Sequence>() && right.is<Sequence>()) {
    Sequence joined{left.get<Sequence>()->items, {}};
    const auto& more = right.get<Sequence>()->items;
    joined.items.insert(joined.items.end(), more.begin(), more.end());
    return {std::move(joined)};
  }
  return fail(node.name_span, "\"" + std::string(expr::to_string(node.op)) +
                                  "\" does not work on " + describe(left) + " and " +
                                  describe(right));
}

}  // namespace tt::eval
