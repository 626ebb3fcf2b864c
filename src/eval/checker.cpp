#include "src/eval/checker.h"

#include <array>
#include <utility>

#include "src/eval/builtins.h"
#include "src/eval/call_checker.h"
#include "src/eval/index.h"
#include "src/eval/names.h"
#include "src/eval/scalar.h"
#include "tensor_tracer/expr/diagnostic.h"

namespace tt::eval {
namespace {

using expr::Kind;
using expr::Node;
using expr::NodeId;
using expr::Operator;
using expr::Span;

// The ATen operator of each operator sign, by the value of Operator.
constexpr std::array<const char*, 21> kAtenNames = {
    "",    "add",    "sub",         "mul",        "div",         "floor_divide", "remainder",
    "pow", "matmul", "bitwise_and", "bitwise_or", "bitwise_xor", "eq",           "ne",
    "lt",  "le",     "gt",          "ge",         "neg",         "positive",     "bitwise_not"};

static_assert(kAtenNames.size() == static_cast<std::size_t>(Operator::kInvert) + 1);

std::string aten_name(Operator op) { return kAtenNames[static_cast<std::size_t>(op)]; }

// Swaps the sides: a < b is b > a.
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

// Walks an expression and adds the calls of a run to the Recorder. After the first problem every
// function returns at once.
class Checker {
 public:
  Checker(const expr::Ast& ast, const Substitutions& known, Recorder& recorder)
      : ast_(ast), known_(known), calls_(recorder) {}

  /// Returns nullopt and sets problem() if the expression is wrong.
  std::optional<TensorValue> check(NodeId root, bool takes_number) {
    const Value value = evaluate(root);
    if (problem()) return std::nullopt;
    if (const auto* tensor = value.get<TensorValue>()) return *tensor;
    if (takes_number && value.is_number()) {
      std::string why;
      const auto dtype = value.is<double>() ? std::optional(at::kDouble) : std::nullopt;
      const auto number = make_tensor(value, dtype, why);
      if (number) mark_number(*number);
      if (number) return calls_.recorder().constant(*number);
    }
    const auto* sequence = value.get<Sequence>();
    std::string remedy = "an expression gives one tensor";
    if (sequence != nullptr && !sequence->names.empty())
      remedy = "take one of them, for example ." + sequence->names.front();
    else if (sequence != nullptr)
      remedy = "take one of them, for example [0], or write stack(...)";
    else if (value.is<Callable>())
      remedy = "call it: add parentheses";
    calls_.fail(ast_.node(root).span, "the expression gives " + describe(value) + ", not a tensor",
                remedy);
    return std::nullopt;
  }

  const std::optional<expr::Problem>& problem() const { return calls_.problem(); }

 private:
  Value substitute(const Substitution& known) const {
    if (const auto* input = std::get_if<std::size_t>(&known))
      return {calls_.recorder().input(*input)};
    return {std::get<std::int64_t>(known)};
  }

  Value evaluate(NodeId id) {
    if (problem()) return {};
    const auto known = known_.find(id);
    return known != known_.end() ? substitute(known->second) : evaluate_node(ast_.node(id));
  }

  Value evaluate_node(const Node& node) {
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
        return resolve_name(node, calls_);
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

  Value evaluate_sequence(const Node& node) {
    Sequence sequence;
    for (const NodeId child : node.children) sequence.items.push_back(evaluate(child));
    return {std::move(sequence)};
  }

  Value evaluate_slice(const Node& node) {
    const auto part = [&](std::size_t index) {
      return node.children[index] == expr::kNoNode ? Value{} : evaluate(node.children[index]);
    };
    bool is_valid = true;
    Slice slice;
    slice.start = to_bound(part(0), is_valid);
    slice.stop = to_bound(part(1), is_valid);
    slice.step = to_bound(part(2), is_valid);
    if (problem()) return {};
    if (!is_valid) return calls_.fail(node.span, "the parts of a slice are integers");
    if (slice.step.value_or(1) <= 0) {
      return calls_.fail(node.span, "the step of a slice is positive",
                         "to turn the order round, write flip(data, (-1,))");
    }
    return {slice};
  }

  Value evaluate_unary(const Node& node) {
    const Value operand = evaluate(node.children[0]);
    if (problem()) return {};
    if (operand.is<TensorValue>())
      return calls_.apply(aten_name(node.op), node.name_span, {operand});
    if (!operand.is_number())
      return calls_.fail(node.name_span, "this operator does not work on " + describe(operand));
    std::string why;
    const auto result = calculate(node.op, operand, why);
    return result ? *result : calls_.fail(node.name_span, why);
  }

  // As in PyTorch's Python classes if the number is the left operand.
  Value reflected(const Node& node, const Value& number, const Value& tensor) {
    const Span span = node.name_span;
    switch (node.op) {
      case Operator::kSubtract:
        return calls_.apply("rsub", span, {tensor, number});
      case Operator::kDivide: {
        const Value inverse = calls_.apply("reciprocal", span, {tensor});
        return calls_.apply("mul", span, {inverse, number});
      }
      case Operator::kFloorDivide:
      case Operator::kRemainder:
      case Operator::kPower:
        return calls_.apply(aten_name(node.op), span, {number, tensor});
      default:
        return calls_.apply(aten_name(mirrored(node.op)), span, {tensor, number});
    }
  }

  Value evaluate_binary(const Node& node) {
    const Value left = evaluate(node.children[0]);
    const Value right = evaluate(node.children[1]);
    if (problem()) return {};
    if (left.is<TensorValue>() && (right.is<TensorValue>() || right.is_number()))
      return calls_.apply(aten_name(node.op), node.name_span, {left, right});
    if (left.is_number() && right.is<TensorValue>()) return reflected(node, left, right);
    if (left.is_number() && right.is_number()) {
      std::string why;
      const auto result = calculate(node.op, left, right, why);
      return result ? *result : calls_.fail(node.name_span, why);
    }
    if (node.op == Operator::kAdd && left.is<Sequence>() && right.is<Sequence>()) {
      Sequence joined{left.get<Sequence>()->items, {}};
      const auto& more = right.get<Sequence>()->items;
      joined.items.insert(joined.items.end(), more.begin(), more.end());
      return {std::move(joined)};
    }
    return calls_.fail(node.name_span, "\"" + std::string(expr::to_string(node.op)) +
                                           "\" does not work on " + describe(left) + " and " +
                                           describe(right));
  }

  Value evaluate_attribute(const Node& node) {
    const Value object = evaluate(node.children[0]);
    return problem() ? Value{} : resolve_attribute(node, object, calls_);
  }

  Value evaluate_index(const Node& node) {
    const Node& object_node = ast_.node(node.children[0]);
    if (object_node.kind == Kind::kAttribute && object_node.text == "shape") {
      const Value tensor = evaluate(object_node.children[0]);
      if (!problem() && tensor.is<TensorValue>()) return index_shape(node, tensor);
    }
    const Value object = evaluate(node.children[0]);
    if (problem()) return {};
    const Span span = ast_.node(node.children[1]).span;
    if (object.is<TensorValue>()) {
      const std::vector<IndexItem> items = read_items(node.children[1]);
      return problem() ? Value{} : index_tensor(object, items, span, calls_);
    }
    if (const auto* sequence = object.get<Sequence>()) {
      const Value subscript = evaluate(node.children[1]);
      return problem() ? Value{} : index_sequence(*sequence, subscript, span, calls_);
    }
    return calls_.fail(object_node.span, describe(object) + " has no index");
  }

  std::vector<IndexItem> read_items(NodeId subscript) {
    std::vector<NodeId> ids = {subscript};
    if (ast_.node(subscript).kind == Kind::kTuple) ids = ast_.node(subscript).children;
    std::vector<IndexItem> items;
    for (const NodeId id : ids)
      items.push_back({evaluate(id), ast_.node(id).span, ast_.node(id).kind == Kind::kList});
    return items;
  }

  // data.shape[-1] reads only one dimension: the other dimensions do not count as read.
  Value index_shape(const Node& node, const Value& tensor) {
    const Value subscript = evaluate(node.children[1]);
    if (problem()) return {};
    const Span span = ast_.node(node.children[1]).span;
    const TensorValue& indexed = *tensor.get<TensorValue>();
    if (const auto* dim = subscript.get<std::int64_t>()) return calls_.size_of(indexed, *dim, span);
    const Value shape = calls_.shape_of(indexed);
    return index_sequence(*shape.get<Sequence>(), subscript, span, calls_);
  }

  std::optional<Call> read_call(const Node& node, const Callable& callee) {
    const Node& callee_node = ast_.node(node.children[0]);
    Call call;
    call.name = callee.name;
    if (!callee.self.empty()) call.self = callee.self.front();
    call.span = node.span;
    call.name_span =
        callee_node.kind == Kind::kAttribute ? callee_node.name_span : callee_node.span;
    for (std::size_t i = 1; i < node.children.size(); ++i) {
      const Node& argument = ast_.node(node.children[i]);
      Given given{evaluate(node.children[i]), argument.span, "", {}};
      if (argument.kind == Kind::kKeyword) {
        given.span = ast_.node(argument.children[0]).span;
        given.name = argument.text;
        given.name_span = argument.name_span;
      }
      call.arguments.push_back(std::move(given));
    }
    return problem() ? std::nullopt : std::optional(std::move(call));
  }

  Value evaluate_call(const Node& node) {
    const Value callee = evaluate(node.children[0]);
    if (problem()) return {};
    const auto* callable = callee.get<Callable>();
    if (callable == nullptr)
      return calls_.fail(ast_.node(node.children[0]).span, describe(callee) + " cannot be called");
    const auto call = read_call(node, *callable);
    if (!call) return {};
    return calls_.call(*call);
  }

  const expr::Ast& ast_;
  const Substitutions& known_;
  CallChecker calls_;
};

}  // namespace

base::Result<TensorValue> check_tensor(const expr::Ast& ast, NodeId root,
                                       const Substitutions& known, bool takes_number,
                                       Recorder& recorder) {
  Checker checker(ast, known, recorder);
  auto tensor = checker.check(root, takes_number);
  if (!tensor) return expr::to_error(ast, *checker.problem());
  return *std::move(tensor);
}

}  // namespace tt::eval
