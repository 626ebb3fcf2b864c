#include "tensor_tracer/expr/ast.h"

#include <array>

namespace tt::expr {
namespace {

constexpr std::array<std::string_view, 21> kOperators = {
    "",  "+",  "-",  "*", "/",  "//", "%",  "**",  "@",   "&", "|",
    "^", "==", "!=", "<", "<=", ">",  ">=", "neg", "pos", "~"};

// The word in front of the children of a node that has some.
std::string head(const Node& node) {
  switch (node.kind) {
    case Kind::kAttribute:
      return "." + node.text;
    case Kind::kCall:
      return "call";
    case Kind::kKeyword:
      return node.text + "=";
    case Kind::kIndex:
      return "index";
    case Kind::kSlice:
      return "slice";
    case Kind::kTuple:
      return "tuple";
    case Kind::kList:
      return "list";
    default:
      return std::string(to_string(node.op));
  }
}

std::string leaf(const Node& node) {
  switch (node.kind) {
    case Kind::kInt:
      return std::to_string(node.integer);
    case Kind::kFloat:
      return std::to_string(node.real);
    case Kind::kString:
      return '"' + node.text + '"';
    case Kind::kTrue:
      return "True";
    case Kind::kFalse:
      return "False";
    case Kind::kNone:
      return "None";
    case Kind::kEllipsis:
      return "...";
    default:
      return node.text;
  }
}

bool has_children(Kind kind) { return kind >= Kind::kAttribute; }

void print(const Ast& ast, NodeId id, std::string& out) {
  if (id == kNoNode) {
    out += "_";
    return;
  }
  const Node& node = ast.node(id);
  if (!has_children(node.kind)) {
    out += leaf(node);
    return;
  }
  out += "(" + head(node);
  for (const NodeId child : node.children) {
    out += " ";
    print(ast, child, out);
  }
  out += ")";
}

}  // namespace

std::string_view to_string(Operator op) { return kOperators[static_cast<std::size_t>(op)]; }

std::string to_string(const Ast& ast) {
  std::string out;
  print(ast, ast.root(), out);
  return out;
}

}  // namespace tt::expr
