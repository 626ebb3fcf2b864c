#include <algorithm>
#include <cmath>
#include <optional>

#include "tensor_tracer/graph/program.h"

namespace tt::graph {
namespace {

using expr::Kind;
using expr::kNoNode;
using expr::Node;
using expr::NodeId;
using expr::Operator;

// The known facts about a value.
struct Known {
  enum Type {
    kNothing,
    kNumber,  // the number `number`
    kZero,    // a tensor of zeros
    kWhole,   // the content of the place
    kPart,    // the content of the written part
  };
  Type type = kNothing;
  double number = 0.0;

  bool is_zero() const { return type == kZero || (type == kNumber && number == 0.0); }
  bool is_one() const { return type == kNumber && number == 1.0; }
  bool operator==(const Known&) const = default;
};

bool is_same(const expr::Ast& ast, NodeId a, NodeId b) {
  if (a == kNoNode || b == kNoNode) return a == b;
  const Node& left = ast.node(a);
  const Node& right = ast.node(b);
  return left.kind == right.kind && left.op == right.op && left.integer == right.integer &&
         left.real == right.real && left.text == right.text &&
         std::ranges::equal(left.children, right.children,
                            [&ast](NodeId one, NodeId other) { return is_same(ast, one, other); });
}

bool is_same_layer(const std::optional<LayerRef>& a, const std::optional<LayerRef>& b) {
  return a.has_value() == b.has_value() &&
         (!a || (a->is_each == b->is_each && a->number == b->number));
}

// False only if the two can never be the same place.
bool may_meet(const Place& a, const Place& b) {
  if (a.point != b.point || a.gradient != b.gradient) return false;
  return !a.layer || !b.layer || a.layer->is_each || b.layer->is_each ||
         a.layer->number == b.layer->number;
}

// Computes a value as far as arithmetic on 0 and 1 determines it.
class Folder {
 public:
  Folder(const Program& program, const Effect& effect,
         const std::map<std::string, double>& parameters)
      : program_(program),
        effect_(effect),
        parameters_(parameters),
        values_(program.values.size()) {}

  // Bindings come before their users, so one pass is enough.
  bool is_identity() {
    std::vector<bool> needed(values_.size(), false);
    needed[effect_.value] = true;
    for (std::size_t i = effect_.value + 1; i-- > 0;) {
      if (!needed[i]) continue;
      for (const Leaf& leaf : program_.values[i].leaves)
        if (leaf.kind == LeafKind::kBinding) needed[leaf.value] = true;
    }
    for (std::size_t i = 0; i <= effect_.value; ++i)
      if (needed[i]) values_[i] = fold_value(program_.values[i]);
    const Known::Type whole = effect_.index == kNoNode ? Known::kWhole : Known::kPart;
    return values_[effect_.value].type == whole;
  }

 private:
  Known fold_value(const Value& value) {
    leaves_.clear();
    for (const Leaf& leaf : value.leaves) leaves_.emplace(leaf.node, &leaf);
    return fold(value.root);
  }

  Known fold(NodeId id) {
    if (id == kNoNode) return {};
    if (const auto leaf = leaves_.find(id); leaf != leaves_.end()) return fold_leaf(*leaf->second);
    const Node& node = program_.ast().node(id);
    switch (node.kind) {
      case Kind::kInt:
        return {Known::kNumber, static_cast<double>(node.integer)};
      case Kind::kFloat:
        return {Known::kNumber, node.real};
      case Kind::kUnary:
        return fold_sign(node.op, fold(node.children[0]));
      case Kind::kBinary:
        return fold_binary(node.op, fold(node.children[0]), fold(node.children[1]));
      case Kind::kIndex:
        return fold_index(node);
      case Kind::kCall:
        return fold_call(node);
      default:
        return {};
    }
  }

  Known fold_leaf(const Leaf& leaf) const {
    if (leaf.kind == LeafKind::kBinding) return values_[leaf.value];
    if (leaf.kind == LeafKind::kParameter) {
      const auto number = parameters_.find(leaf.name);
      return number == parameters_.end() ? Known{} : Known{Known::kNumber, number->second};
    }
    if (leaf.kind != LeafKind::kPlace || !is_written_place(leaf.place) || is_stale(leaf)) return {};
    return {Known::kWhole, 0.0};
  }

  bool is_written_place(const Place& place) const {
    return place.point == effect_.place.point && place.gradient == effect_.place.gradient &&
           is_same_layer(place.layer, effect_.place.layer) &&
           is_same(program_.ast(), place.heads, effect_.place.heads);
  }

  // True if a line between the read and this effect wrote the place.
  bool is_stale(const Leaf& leaf) const {
    const std::uint32_t read = program_.ast().node(leaf.node).span.begin;
    return std::ranges::any_of(program_.effects, [&](const Effect& other) {
      return other.kind == EffectKind::kWrite && other.span.begin > read &&
             other.span.begin < effect_.span.begin && may_meet(other.place, effect_.place);
    });
  }

  static Known fold_sign(Operator op, const Known& operand) {
    if (op == Operator::kPositive) return operand;
    if (op != Operator::kNegative) return {};
    if (operand.type == Known::kNumber) return {Known::kNumber, -operand.number};
    return operand.is_zero() ? operand : Known{};
  }

  static Known fold_binary(Operator op, const Known& a, const Known& b) {
    if (a.type == Known::kNumber && b.type == Known::kNumber) return fold_numbers(op, a, b);
    switch (op) {
      case Operator::kAdd:
        if (a.is_zero()) return b.type == Known::kNumber ? Known{} : b;
        return b.is_zero() && a.type != Known::kNumber ? a : Known{};
      case Operator::kSubtract:
        return b.is_zero() && a.type != Known::kNumber ? a : Known{};
      case Operator::kMultiply:
        if (a.is_zero() || b.is_zero()) return {Known::kZero, 0.0};
        return a.is_one() ? b : b.is_one() ? a : Known{};
      case Operator::kDivide:
        if (b.is_one()) return a;
        return a.is_zero() && b.type == Known::kNumber && b.number != 0.0 ? Known{Known::kZero, 0.0}
                                                                          : Known{};
      default:
        return {};
    }
  }

  static Known fold_numbers(Operator op, const Known& a, const Known& b) {
    double number = NAN;
    if (op == Operator::kAdd) number = a.number + b.number;
    if (op == Operator::kSubtract) number = a.number - b.number;
    if (op == Operator::kMultiply) number = a.number * b.number;
    if (op == Operator::kDivide) number = a.number / b.number;
    return std::isfinite(number) ? Known{Known::kNumber, number} : Known{};
  }

  Known fold_index(const Node& node) {
    const Known object = fold(node.children[0]);
    if (object.type == Known::kZero) return object;
    const bool is_part = object.type == Known::kWhole && effect_.index != kNoNode &&
                         is_same(program_.ast(), node.children[1], effect_.index);
    return is_part ? Known{Known::kPart, 0.0} : Known{};
  }

  // where(c, x, x) is x.
  Known fold_call(const Node& node) {
    if (node.children.size() != 4 || !is_where(node.children[0])) return {};
    const Known first = fold(node.children[2]);
    return first == fold(node.children[3]) ? first : Known{};
  }

  bool is_where(NodeId callee) const {
    const Node& node = program_.ast().node(callee);
    if (node.text != "where") return false;
    if (node.kind == Kind::kName) return true;
    const Node& object = program_.ast().node(node.children[0]);
    return object.kind == Kind::kName && object.text == "torch";
  }

  const Program& program_;
  const Effect& effect_;
  const std::map<std::string, double>& parameters_;
  std::vector<Known> values_;
  std::map<NodeId, const Leaf*> leaves_;  // of the value that is being computed
};

}  // namespace

bool is_identity(const Program& program, const Effect& effect,
                 const std::map<std::string, double>& parameters) {
  return effect.kind == EffectKind::kWrite && Folder(program, effect, parameters).is_identity();
}

}  // namespace tt::graph
