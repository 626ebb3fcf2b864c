#include "src/graph/value_reader.h"

#include <algorithm>
#include <utility>

#include "src/graph/words.h"

namespace tt::graph {
namespace {

using expr::Kind;
using expr::kNoNode;
using expr::Node;
using expr::NodeId;

// Visits an expression down to its leaves. The parser has limited the depth.
class ValueReader {
 public:
  ValueReader(Reading& reading, const Names& names, Value& value, std::vector<Value>& values)
      : reading_(reading), names_(names), value_(value), values_(values) {}

  bool visit(NodeId id) {
    if (id == kNoNode) return true;
    if (is_module(reading_.called(id))) return visit_module(id);
    Leaf leaf;
    const Found found = find_leaf(reading_, names_, id, leaf);
    if (found == Found::kLeaf) value_.leaves.push_back(std::move(leaf));
    if (found != Found::kNothing) return found == Found::kLeaf;
    const Node& node = reading_.node(id);
    switch (node.kind) {
      case Kind::kName:
        return check_unknown(node);
      case Kind::kAttribute:
        return is_torch(id) || (check_member(node) && visit(node.children[0]));
      case Kind::kCall:
        return visit_callee(node) && visit_all(node, 1);
      default:
        return visit_all(node, 0);
    }
  }

 private:
  bool visit_all(const Node& node, std::size_t first) {
    return std::all_of(
        node.children.begin() + static_cast<std::ptrdiff_t>(first), node.children.end(),
        [this](NodeId child) { return visit(child); });
  }

  // True for torch and for paths such as torch.linalg.norm.
  bool is_torch(NodeId id) const {
    while (reading_.node(id).kind == Kind::kAttribute) id = reading_.node(id).children[0];
    return reading_.is_name(id, "torch");
  }

  // The argument and the result of final_norm(x) are separate values; this one is a leaf.
  bool visit_module(NodeId id) {
    const std::string module = reading_.called(id);
    const Signature signature{module + "(layers[12].output)", {"value"}, 1, 1};
    const auto given = read_arguments(reading_, id, signature);
    if (given.empty() || !read_value(reading_, names_, given[0], "", values_)) return false;
    Value result{"", id, {}, module};
    result.leaves.push_back(binding_of(given[0], values_.size() - 1, "its argument"));
    values_.push_back(std::move(result));
    value_.leaves.push_back(binding_of(id, values_.size() - 1, module + "(...)"));
    return true;
  }

  static Leaf binding_of(NodeId node, std::size_t value, std::string name) {
    Leaf leaf;
    leaf.kind = LeafKind::kBinding;
    leaf.node = node;
    leaf.name = std::move(name);
    leaf.value = value;
    return leaf;
  }

  bool visit_callee(const Node& call) {
    const Node& callee = reading_.node(call.children[0]);
    const bool is_member = callee.kind == Kind::kAttribute;
    if (callee.kind == Kind::kName) return check_callee(call, callee);
    if (is_member && reading_.is_name(callee.children[0], "torch"))
      return check_callee(call, callee);
    if (is_member && !visit(call.children[0])) return false;
    const bool is_leaf = !value_.leaves.empty() && value_.leaves.back().node == call.children[0];
    if (is_member && !is_leaf) return true;
    return reading_.fail(callee.span, "this is no operator that could be called",
                         "take the parentheses behind it away");
  }

  // No operator takes a string as its first argument. So vector("evil") with a typo differs from
  // tile(x).
  bool check_callee(const Node& call, const Node& callee) {
    const points::PlaceTable& places = *reading_.model().places;
    if (is_reserved(callee.text, places) && callee.kind == Kind::kAttribute) {
      return reading_.fail(callee.name_span, "torch has no operator " + in_quotes(callee.text),
                           "docs/expressions.md lists the operators");
    }
    if (is_reserved(callee.text, places)) {
      return reading_.fail(callee.span, in_quotes(callee.text) + " is not called",
                           "take the parentheses behind it away");
    }
    const bool has_string =
        call.children.size() > 1 && reading_.node(call.children[1]).kind == Kind::kString;
    const std::string meant =
        has_string ? expr::suggestion(callee.text, {"vector", "file", "saved"}) : "";
    return meant.empty() ||
           reading_.fail(callee.span, "there is no " + in_quotes(callee.text) + meant,
                         "docs/intervention_graph.md lists what stands in an expression");
  }

  bool check_member(const Node& node) {
    if (node.text != "grad" && node.text != "heads") return true;
    return reading_.fail(node.name_span, "only a place has \"" + node.text + "\", not a value",
                         "write it behind the place: layers[12].attention.context." + node.text);
  }

  // Eval looks up the names of operators and constants. This function checks only a name that is
  // more similar to a name of this program.
  bool check_unknown(const Node& node) {
    const auto below = names_.lines.find(node.text);
    const std::size_t here = reading_.line_of(value_.root);
    if (below != names_.lines.end() && below->second <= here) {
      return reading_.fail(node.span, "the line that gives " + in_quotes(node.text) + " uses it",
                           "for a value of an earlier pass write saved(\"name\")");
    }
    if (below != names_.lines.end()) {
      return reading_.fail(node.span,
                           in_quotes(node.text) + " is not there yet: line " +
                               std::to_string(below->second) + " gives it",
                           "move that line up");
    }
    if (is_reserved(node.text, *reading_.model().places)) {
      return !is_special_call(node.text) ||
             reading_.fail(node.span, in_quotes(node.text) + " is called with parentheses",
                           "docs/intervention_graph.md says how");
    }
    std::vector<std::string> known = place_words(*reading_.model().places);
    known.emplace_back("layer");
    for (const auto& [name, line] : names_.lines) known.push_back(name);
    const std::string meant = expr::suggestion(node.text, known);
    return meant.empty() || reading_.fail(node.span, "there is no " + in_quotes(node.text) + meant,
                                          "a name is given on a line above: name = expression");
  }

  Reading& reading_;
  const Names& names_;
  Value& value_;
  std::vector<Value>& values_;
};

}  // namespace

bool read_value(Reading& reading, const Names& names, NodeId root, std::string name,
                std::vector<Value>& values) {
  Value value{std::move(name), root, {}};
  if (!ValueReader(reading, names, value, values).visit(root)) return false;
  values.push_back(std::move(value));
  return true;
}

}  // namespace tt::graph
