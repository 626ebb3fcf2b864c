#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/eval/binder.h"
#include "src/eval/recorder.h"
#include "src/eval/value.h"
#include "tensor_tracer/expr/ast.h"
#include "tensor_tracer/expr/diagnostic.h"

namespace tt::eval {

/// Follows an expression and has the Recorder write down what a run will call. After the first
/// problem every function returns at once. Owner: the caller of what the constructor is given.
/// Thread: one.
class Checker {
 public:
  Checker(const expr::Ast& ast, const Substitutions& known, Recorder& recorder)
      : ast_(ast), known_(known), recorder_(recorder) {}

  /// The tensor that the expression under `root` gives; nothing, and problem(), if it is wrong.
  /// `takes_number`: a number counts as a tensor without dimensions.
  std::optional<TensorValue> check(expr::NodeId root, bool takes_number);
  const std::optional<expr::Problem>& problem() const { return problem_; }

 private:
  using Node = expr::Node;
  using NodeId = expr::NodeId;
  using Span = expr::Span;

  // checker.cpp
  Value evaluate(NodeId id);
  Value evaluate_node(const Node& node);
  Value substitute(const Substitution& known) const;
  Value evaluate_sequence(const Node& node);
  Value evaluate_slice(const Node& node);
  Value evaluate_unary(const Node& node);
  Value evaluate_binary(const Node& node);
  Value reflected(const Node& node, const Value& number, const Value& tensor);
  Value fail(Span span, std::string what, std::string remedy = "");
  // names.cpp
  Value evaluate_name(const Node& node);
  Value evaluate_attribute(const Node& node);
  Value attribute_of_module(const Node& node, const Module& module);
  Value attribute_of_tensor(const Node& node, const Value& object);
  Value attribute_of_sequence(const Node& node, const Sequence& sequence);
  std::vector<std::string> known_names() const;
  // call.cpp
  Value evaluate_call(const Node& node);
  std::optional<Call> read_call(const Node& node, const Callable& callee);
  Value call_operator(const Call& call);
  Value call_overload(const Call& call, const OperatorRow& row, const c10::OperatorHandle& op,
                      std::vector<PlanArgument> arguments);
  Value refuse_call(const Call& call, const Mismatch& mismatch);
  Value apply(const std::string& name, Span span, std::vector<Value> arguments);
  // builtin_calls.cpp
  Value call_builtin(const Call& call);
  Value call_size(const Call& call, const TensorValue& tensor, std::size_t first_argument);
  Value call_tensor(const Call& call);
  Value size_of(const TensorValue& tensor, std::int64_t dim, Span span);
  Value shape_of(const TensorValue& tensor);
  // index.cpp
  Value evaluate_index(const Node& node);
  Value index_shape(const Node& node, const Value& tensor);
  Value index_sequence(const Node& node, const Sequence& sequence, const Value& subscript);
  Value index_tensor(const Node& node, Value tensor);
  Value index_one(Value tensor, NodeId item, std::int64_t& dim, std::int64_t skipped);
  Value index_by_list(const Value& tensor, const Sequence& list, std::int64_t dim, Span span);
  std::optional<std::int64_t> count_indexed(const std::vector<NodeId>& items);

  const expr::Ast& ast_;
  const Substitutions& known_;
  Recorder& recorder_;
  std::optional<expr::Problem> problem_;
};

}  // namespace tt::eval
