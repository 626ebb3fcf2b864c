#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/eval/call_checker.h"
#include "src/eval/index.h"
#include "src/eval/recorder.h"
#include "src/eval/value.h"
#include "tensor_tracer/expr/ast.h"
#include "tensor_tracer/expr/diagnostic.h"

namespace tt::eval {

/// Walks an expression and has the Recorder write down the calls of a run. After the first problem
/// every function returns at once. The constructor's arguments must outlive it. Thread: one.
class Checker {
 public:
  Checker(const expr::Ast& ast, const Substitutions& known, Recorder& recorder)
      : ast_(ast), known_(known), calls_(recorder) {}

  /// The tensor that the expression under `root` gives; nothing, and problem(), if it is wrong.
  /// `takes_number`: a number counts as a tensor without dimensions.
  std::optional<TensorValue> check(expr::NodeId root, bool takes_number);
  const std::optional<expr::Problem>& problem() const { return calls_.problem(); }

 private:
  using Node = expr::Node;
  using NodeId = expr::NodeId;
  using Span = expr::Span;

  Value evaluate(NodeId id);
  Value evaluate_node(const Node& node);
  Value substitute(const Substitution& known) const;
  Value evaluate_sequence(const Node& node);
  Value evaluate_slice(const Node& node);
  Value evaluate_unary(const Node& node);
  Value evaluate_binary(const Node& node);
  Value reflected(const Node& node, const Value& number, const Value& tensor);
  Value evaluate_attribute(const Node& node);
  Value evaluate_index(const Node& node);
  Value index_shape(const Node& node, const Value& tensor);
  std::vector<IndexItem> read_items(NodeId subscript);
  Value evaluate_call(const Node& node);
  std::optional<Call> read_call(const Node& node, const Callable& callee);

  const expr::Ast& ast_;
  const Substitutions& known_;
  CallChecker calls_;
};

}  // namespace tt::eval
