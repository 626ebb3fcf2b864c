#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/expr/ast.h"

namespace tt::graph {

/// Splits for example "torch.linalg.norm" into its words.
std::vector<std::string> split_path(const std::string& path);

/// The operator for which expr::to_string() gives `sign`; else kNoOperator.
expr::Operator find_operator(const std::string& sign);

/// Makes the nodes of a syntax tree for the nodes of a graph, within expr::kScriptLimits. After the
/// first problem every function returns kNoNode. Thread: one.
class TreeBuilder {
 public:
  /// Sets the id of the graph's node that later problems name.
  void set_id(std::string id) { id_ = std::move(id); }
  const std::string& id() const { return id_; }
  const std::optional<base::Error>& error() const { return error_; }
  /// Records a problem; only the first problem is kept.
  expr::NodeId fail(std::string message, std::string remedy = "");

  expr::NodeId add(expr::Node node);
  expr::NodeId add(expr::Kind kind, std::vector<expr::NodeId> children);
  /// Makes a node for a word such as True, None or "...".
  expr::NodeId word(expr::Kind kind, std::string text);
  expr::NodeId name(std::string text);
  expr::NodeId keyword(const std::string& name, expr::NodeId value);
  /// Makes object.word.word. Without an object, the first word is a name.
  expr::NodeId path(expr::NodeId object, const std::string& words);
  expr::NodeId call(const std::string& callee, std::vector<expr::NodeId> arguments);
  expr::NodeId call(expr::NodeId callee, std::vector<expr::NodeId> arguments);
  /// Makes an operator with one operand or two.
  expr::NodeId sign(expr::Operator op, std::vector<expr::NodeId> operands);
  /// A number that may have a sign.
  expr::NodeId number(const nlohmann::json& value);
  /// Makes a string; a problem's text calls it `member`.
  expr::NodeId text(const nlohmann::json& value, const std::string& member);

  const expr::Node& node(expr::NodeId id) const { return nodes_[id]; }
  std::vector<expr::Node> take_nodes() { return std::move(nodes_); }

 private:
  std::string id_;
  std::vector<expr::Node> nodes_;
  std::vector<std::size_t> depths_;  // of each node's subtree
  std::optional<base::Error> error_;
};

}  // namespace tt::graph
