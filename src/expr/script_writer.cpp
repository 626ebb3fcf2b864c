#include <algorithm>
#include <array>
#include <utility>

#include "src/expr/parser.h"
#include "src/expr/text.h"
#include "tensor_tracer/expr/script.h"

namespace tt::expr {
namespace {

constexpr int kNumberLevel = 9;  // no dot may follow a number
constexpr int kPrimaryLevel = 10;
constexpr int kAtomLevel = 11;

int level_of(const Node& node) {
  // In the order of Kind, from kInt to kUnary.
  constexpr std::array kLevels = {kNumberLevel,  kNumberLevel,  kAtomLevel, kAtomLevel,
                                  kAtomLevel,    kAtomLevel,    kAtomLevel, kAtomLevel,
                                  kPrimaryLevel, kPrimaryLevel, kAtomLevel, kPrimaryLevel,
                                  kAtomLevel,    kAtomLevel,    kAtomLevel, kUnaryLevel};
  return node.kind == Kind::kBinary ? binding_level(node.op)
                                    : kLevels[static_cast<std::size_t>(node.kind)];
}

std::string quoted(const std::string& value) {
  std::string text;
  for (const char c : value) {
    const std::string_view escaped = c == '"'    ? "\\\""
                                     : c == '\\' ? "\\\\"
                                     : c == '\n' ? "\\n"
                                     : c == '\t' ? "\\t"
                                                 : std::string_view(&c, 1);
    text += escaped;
  }
  return '"' + text + '"';
}

std::string_view sign_of(Operator op) {
  return op == Operator::kNegative ? "-" : op == Operator::kPositive ? "+" : to_string(op);
}

class ScriptWriter {
 public:
  explicit ScriptWriter(BuiltScript built) : built_(std::move(built)), nodes_(built_.nodes) {}

  Script write() {
    std::vector<Origin> origins;
    for (std::size_t i = 0; i < built_.statements.size(); ++i) {
      write_statement(built_.statements[i]);
      origins.push_back({built_.statements[i].span, built_.statement_origins[i]});
    }
    for (auto& [node, name] : built_.origins) origins.push_back({nodes_[node].span, name});
    const NodeId root = built_.statements.back().value;
    return {Ast(std::move(text_), std::move(nodes_), root, std::move(origins)),
            std::move(built_.statements)};
  }

 private:
  std::uint32_t here() const { return static_cast<std::uint32_t>(text_.size()); }

  void write_statement(Statement& statement) {
    statement.span.begin = here();
    if (statement.condition != kNoNode) {
      text_ += "if ";
      write(statement.condition);
      text_ += ": ";
    }
    if (statement.target != kNoNode) {
      write(statement.target);
      text_ += " = ";
    }
    write(statement.value);
    statement.span.end = here();
    text_ += '\n';
  }

  // Adds parentheses if the node binds less strongly than `level`.
  void write(NodeId id, int level = 0) {
    Node& node = nodes_[id];
    const bool is_loose = level_of(node) < level;
    if (is_loose) text_ += '(';
    node.span.begin = here();
    write_inside(node);
    node.span.end = here();
    if (is_loose) text_ += ')';
  }

  void write_inside(Node& node) {
    const auto& children = node.children;
    switch (node.kind) {
      case Kind::kAttribute:
        write(children[0], kPrimaryLevel);
        text_ += '.';
        return write_word(node, node.text);
      case Kind::kKeyword:
        write_word(node, node.text);
        text_ += '=';
        return write(children[0]);
      case Kind::kCall:
        write(children[0], kPrimaryLevel);
        return write_items("(", children, 1, ")");
      case Kind::kIndex:
        write(children[0], kPrimaryLevel);
        return write_subscript(nodes_[children[1]], children[1]);
      case Kind::kSlice:
        return write_slice(children);
      case Kind::kTuple:
        return write_items("(", children, 0, children.size() == 1 ? ",)" : ")");
      case Kind::kList:
        return write_items("[", children, 0, "]");
      case Kind::kUnary:
        write_word(node, sign_of(node.op));
        return write(children[0], kUnaryLevel);
      case Kind::kBinary:
        return write_binary(node);
      case Kind::kString:
        return write_word(node, quoted(node.text));
      default:
        return write_word(node, node.text);
    }
  }

  void write_word(Node& node, std::string_view word) {
    node.name_span.begin = here();
    text_ += word;
    node.name_span.end = here();
  }

  void write_binary(Node& node) {
    const int level = level_of(node);
    const bool is_power = level == kPowerLevel;
    const int left = is_power ? kNumberLevel : level == kComparisonLevel ? level + 1 : level;
    write(node.children[0], left);
    text_ += ' ';
    write_word(node, sign_of(node.op));
    text_ += ' ';
    write(node.children[1], is_power ? kUnaryLevel : level + 1);
  }

  void write_items(std::string_view open, const std::vector<NodeId>& items, std::size_t first,
                   std::string_view close) {
    text_ += open;
    for (std::size_t i = first; i < items.size(); ++i) {
      if (i > first) text_ += ", ";
      write(items[i]);
    }
    text_ += close;
  }

  // Inside brackets, a tuple has no parentheses, except an empty tuple.
  void write_subscript(Node& subscript, NodeId id) {
    const auto& items = subscript.children;
    if (subscript.kind != Kind::kTuple || items.empty()) return write_items("[", {id}, 0, "]");
    subscript.span.begin = here() + 1;
    write_items("[", items, 0, items.size() == 1 ? ",]" : "]");
    subscript.span.end = nodes_[items.back()].span.end;
  }

  void write_slice(const std::vector<NodeId>& parts) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (i == 1 || (i == 2 && parts[2] != kNoNode)) text_ += ':';
      if (parts[i] != kNoNode) write(parts[i]);
    }
  }

  BuiltScript built_;
  std::vector<Node>& nodes_;
  std::string text_;
};

}  // namespace

bool is_name(std::string_view word) {
  return !word.empty() && is_letter(word[0]) && std::ranges::all_of(word, is_word) &&
         word.find("__") == std::string_view::npos && !is_keyword(std::string(word));
}

Script write_script(BuiltScript built) { return ScriptWriter(std::move(built)).write(); }

}  // namespace tt::expr
