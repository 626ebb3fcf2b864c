#include "src/graph/tree_builder.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "src/graph/graph_nodes.h"
#include "tensor_tracer/expr/script.h"

namespace tt::graph {

using expr::Kind;
using expr::kNoNode;
using expr::NodeId;
using expr::Operator;
using nlohmann::json;

std::vector<std::string> split_path(const std::string& path) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t dot = std::min(path.find('.', begin), path.size());
    words.push_back(path.substr(begin, dot - begin));
    begin = dot + 1;
  }
  return words;
}

Operator find_operator(const std::string& sign) {
  auto op = Operator::kInvert;
  while (op != Operator::kNoOperator && expr::to_string(op) != sign)
    op = static_cast<Operator>(static_cast<int>(op) - 1);
  return op;
}

NodeId TreeBuilder::fail(std::string message, std::string remedy) {
  if (!error_) error_ = graph_error(id_, std::move(message), std::move(remedy));
  return kNoNode;
}

NodeId TreeBuilder::sign(Operator op, std::vector<NodeId> operands) {
  const Kind kind = operands.size() == 1 ? Kind::kUnary : Kind::kBinary;
  return add({.kind = kind, .op = op, .children = std::move(operands)});
}

NodeId TreeBuilder::number(const json& value) {
  const bool is_integer = value.is_number_integer();
  const bool is_finite = value.is_number_float() && std::isfinite(value.get<double>());
  if (!is_integer && !is_finite)
    return fail("a number is expected", "infinity is {\"name\": \"inf\"}");
  std::string text = value.dump();
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.erase(0, 1);
  std::int64_t magnitude = 0;
  if (is_integer) {
    const auto read = std::from_chars(text.data(), text.data() + text.size(), magnitude);
    if (read.ec != std::errc()) return fail("a number does not fit into 64 bits");
  }
  const double real = is_integer ? 0.0 : std::abs(value.get<double>());
  const NodeId tree = add({.kind = is_integer ? Kind::kInt : Kind::kFloat,
                           .integer = magnitude,
                           .real = real,
                           .text = std::move(text)});
  return is_negative ? sign(Operator::kNegative, {tree}) : tree;
}

NodeId TreeBuilder::text(const json& value, const std::string& member) {
  if (!value.is_string()) return fail("its " + member + " is not a string");
  return word(Kind::kString, value.get<std::string>());
}

NodeId TreeBuilder::name(std::string text) { return word(Kind::kName, std::move(text)); }

NodeId TreeBuilder::word(Kind kind, std::string text) {
  return add({.kind = kind, .text = std::move(text)});
}

NodeId TreeBuilder::keyword(const std::string& name, NodeId value) {
  if (!expr::is_name(name)) fail("\"" + shown(name) + "\" is not the name of an argument");
  return add({.kind = Kind::kKeyword, .text = name, .children = {value}});
}

NodeId TreeBuilder::path(NodeId object, const std::string& words) {
  for (std::string& word : split_path(words)) {
    object = object == kNoNode
                 ? name(std::move(word))
                 : add({.kind = Kind::kAttribute, .text = std::move(word), .children = {object}});
  }
  return object;
}

NodeId TreeBuilder::call(const std::string& callee, std::vector<NodeId> arguments) {
  return call(name(callee), std::move(arguments));
}

NodeId TreeBuilder::call(NodeId callee, std::vector<NodeId> arguments) {
  arguments.insert(arguments.begin(), callee);
  return add(Kind::kCall, std::move(arguments));
}

NodeId TreeBuilder::add(Kind kind, std::vector<NodeId> children) {
  return add({.kind = kind, .children = std::move(children)});
}

NodeId TreeBuilder::add(expr::Node node) {
  if (error_) return kNoNode;
  std::size_t depth = 1;
  for (const NodeId child : node.children)
    if (child != kNoNode) depth = std::max(depth, depths_[child] + 1);
  const expr::Limits& limits = expr::kScriptLimits;
  if (depth > limits.max_depth) {
    return fail("the node and the nodes that it uses are nested deeper than " +
                    std::to_string(limits.max_depth),
                "give some of the nodes names");
  }
  if (nodes_.size() >= limits.max_nodes) {
    return fail(
        "with this node the graph has more than " + std::to_string(limits.max_nodes) + " parts",
        "split it");
  }
  nodes_.push_back(std::move(node));
  depths_.push_back(depth);
  return static_cast<NodeId>(nodes_.size() - 1);
}

}  // namespace tt::graph
