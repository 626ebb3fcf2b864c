#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tt::expr {

/// Bytes [begin, end) of the source text.
struct Span {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// Index of a node in its Ast.
using NodeId = std::uint32_t;
inline constexpr NodeId kNoNode = 0xFFFFFFFF;

enum class Kind : std::uint8_t {
  kInt,        // integer
  kFloat,      // real
  kString,     // text, unescaped
  kTrue,       //
  kFalse,      //
  kNone,       //
  kEllipsis,   // ...
  kName,       // text
  kAttribute,  // children: object; text: the name after the dot, at name_span
  kCall,       // children: callee, then arguments in source order, kKeyword ones last
  kKeyword,    // children: value; text: the argument's name, at name_span
  kIndex,      // children: object, subscript (a kTuple if there are commas)
  kSlice,      // children: start, stop, step; absent parts are kNoNode
  kTuple,      // children: items
  kList,       // children: items
  kUnary,      // children: operand; op
  kBinary,     // children: left, right; op; includes comparisons
};

enum class Operator : std::uint8_t {
  kNoOperator,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kRemainder,
  kPower,
  kMatmul,
  kAnd,
  kOr,
  kXor,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kNegative,
  kPositive,
  kInvert,
};

/// The operator as it is written ("+", "//", "<=", …); the signs are "neg" and "pos".
std::string_view to_string(Operator op);

/// One node. Kind lists the fields that have a meaning.
struct Node {
  Kind kind = Kind::kNone;
  Operator op = Operator::kNoOperator;
  Span span = {};  // the whole expression, without parentheses around it
  Span name_span =
      {};  // of `text` in kAttribute and kKeyword; of the operator in kUnary and kBinary
  std::int64_t integer = 0;
  double real = 0;
  std::string text = {};
  std::vector<NodeId> children = {};
};

/// A part of a source text that was written for the node `name` of a user's graph in another
/// format.
struct Origin {
  Span span;
  std::string name;
};

/// An expression: its nodes, with children always before their parents, and the source text that
/// their spans refer to. Thread: any; it never changes.
class Ast {
 public:
  /// `origins`: for a text that was written for the nodes; empty if a user wrote the text.
  Ast(std::string source, std::vector<Node> nodes, NodeId root, std::vector<Origin> origins = {})
      : source_(std::move(source)),
        nodes_(std::move(nodes)),
        root_(root),
        origins_(std::move(origins)) {}

  const std::string& source() const { return source_; }
  const std::vector<Origin>& origins() const { return origins_; }
  std::size_t size() const { return nodes_.size(); }
  NodeId root() const { return root_; }
  /// REQUIRES: id < size().
  const Node& node(NodeId id) const { return nodes_[id]; }

 private:
  std::string source_;
  std::vector<Node> nodes_;
  NodeId root_;
  std::vector<Origin> origins_;
};

}  // namespace tt::expr
