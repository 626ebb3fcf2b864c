#pragma once

#include <string>

#include "tensor_tracer/expr/ast.h"

namespace tt::expr {

// The word in front of the children of a node that has some.
inline std::string head_of(const Node& node) {
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

inline std::string leaf_text(const Node& node) {
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

inline bool has_children(Kind kind) { return kind >= Kind::kAttribute; }

inline void add_tree(const Ast& ast, NodeId id, std::string& out) {
  if (id == kNoNode) {
    out += "_";
    return;
  }
  const Node& node = ast.node(id);
  if (!has_children(node.kind)) {
    out += leaf_text(node);
    return;
  }
  out += "(" + head_of(node);
  for (const NodeId child : node.children) {
    out += " ";
    add_tree(ast, child, out);
  }
  out += ")";
}

/// The tree in one line, fully parenthesised: "(+ data (* 2 (neg x)))".
inline std::string tree_text(const Ast& ast, NodeId root) {
  std::string out;
  add_tree(ast, root, out);
  return out;
}

}  // namespace tt::expr
