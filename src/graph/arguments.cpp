#include <algorithm>

#include "src/graph/reading.h"

namespace tt::graph {

using expr::Kind;
using expr::kNoNode;
using expr::Node;
using expr::NodeId;

std::string in_quotes(std::string_view text) { return '"' + std::string(text) + '"'; }

std::string Reading::called(NodeId id) const {
  if (node(id).kind != Kind::kCall) return "";
  const Node& callee = node(node(id).children[0]);
  return callee.kind == Kind::kName ? callee.text : "";
}

std::optional<std::int64_t> Reading::integer(NodeId id) const {
  const Node& whole = node(id);
  if (whole.kind == Kind::kInt) return whole.integer;
  if (whole.kind != Kind::kUnary || whole.op != expr::Operator::kNegative) return std::nullopt;
  const Node& operand = node(whole.children[0]);
  if (operand.kind != Kind::kInt) return std::nullopt;
  return -operand.integer;
}

std::optional<double> Reading::number(NodeId id) const {
  const Node& whole = node(id);
  if (whole.kind == Kind::kInt) return static_cast<double>(whole.integer);
  if (whole.kind == Kind::kFloat) return whole.real;
  if (whole.kind != Kind::kUnary || whole.op != expr::Operator::kNegative) return std::nullopt;
  const Node& operand = node(whole.children[0]);
  if (operand.kind == Kind::kInt) return -static_cast<double>(operand.integer);
  if (operand.kind == Kind::kFloat) return -operand.real;
  return std::nullopt;
}

std::size_t Reading::line_of(NodeId id) const {
  const std::string_view before = std::string_view(ast_.source()).substr(0, node(id).span.begin);
  return 1 + static_cast<std::size_t>(std::ranges::count(before, '\n'));
}

std::vector<NodeId> read_arguments(Reading& reading, NodeId call, const Signature& signature) {
  const Node& whole = reading.node(call);
  const std::string name = reading.called(call);
  const std::string remedy = "write " + std::string(signature.usage);
  std::vector<NodeId> given(signature.arguments.size(), kNoNode);
  for (std::size_t i = 1; i < whole.children.size(); ++i) {
    const Node& argument = reading.node(whole.children[i]);
    std::size_t place = i - 1;
    if (argument.kind == Kind::kKeyword) {
      const auto found = std::ranges::find(signature.arguments, std::string_view(argument.text));
      place = static_cast<std::size_t>(found - signature.arguments.begin());
    } else if (place >= signature.positional) {
      reading.fail(argument.span, name + "() takes no more arguments without a name", remedy);
      return {};
    }
    if (place == given.size()) {
      const std::vector<std::string> known(signature.arguments.begin(), signature.arguments.end());
      reading.fail(
          argument.name_span,
          name + "() has no " + in_quotes(argument.text) + expr::suggestion(argument.text, known),
          remedy);
      return {};
    }
    if (given[place] != kNoNode) {
      reading.fail(argument.span, in_quotes(signature.arguments[place]) + " is given twice",
                   remedy);
      return {};
    }
    given[place] = argument.kind == Kind::kKeyword ? argument.children[0] : whole.children[i];
  }
  for (std::size_t i = 0; i < signature.required; ++i) {
    if (given[i] != kNoNode) continue;
    reading.fail(whole.span, name + "() needs " + in_quotes(signature.arguments[i]), remedy);
    return {};
  }
  return given;
}

bool read_string(Reading& reading, NodeId id, std::string_view what, std::size_t max_bytes,
                 std::string& text) {
  const Node& node = reading.node(id);
  if (node.kind != Kind::kString)
    return reading.fail(node.span, std::string(what) + " is a string", "write it in quotes");
  if (node.text.empty())
    return reading.fail(node.span, std::string(what) + " is empty", "fill it in");
  if (node.text.size() > max_bytes) {
    return reading.fail(node.span,
                        std::string(what) + " has " + std::to_string(node.text.size()) +
                            " bytes, the limit is " + std::to_string(max_bytes),
                        "shorten it");
  }
  text = node.text;
  return true;
}

}  // namespace tt::graph
