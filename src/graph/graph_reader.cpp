#include "src/graph/graph_reader.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/graph/graph_lines.h"
#include "src/graph/graph_nodes.h"
#include "src/graph/tree_builder.h"
#include "src/graph/words.h"
#include "tensor_tracer/expr/diagnostic.h"
#include "tensor_tracer/graph/program.h"

namespace tt::graph {
namespace {

using expr::Kind;
using expr::kNoNode;
using expr::NodeId;
using expr::Operator;
using nlohmann::json;

// Builds the lines of a graph, node by node. After the first problem the result is not used.
class ScriptBuilder {
 public:
  ScriptBuilder(const Graph& graph, const points::PlaceTable& places)
      : graph_(graph),
        places_(places),
        names_(choose_lines(graph, places)),
        taken_(names_.begin(), names_.end()),
        trees_(graph.nodes.size(), kNoNode) {}

  base::Result<expr::Script> build(const json& whole) {
    if (whole.contains("when")) add_when(whole["when"]);
    for (const std::size_t index : graph_.order)
      if (!tree_.error()) add_node(index);
    if (tree_.error()) return *tree_.error();
    if (script_.statements.empty())
      return graph_error("nodes", "there is no node to read", "write at least one");
    script_.nodes = tree_.take_nodes();
    expr::Script script = expr::write_script(std::move(script_));
    if (script.ast.source().size() > expr::kScriptLimits.max_source_bytes) {
      return graph_error("",
                         "as text the graph has more than " +
                             std::to_string(expr::kScriptLimits.max_source_bytes) + " bytes",
                         "split it into several programs");
    }
    return script;
  }

 private:
  // --- Lines ---

  void add_when(const json& when) {
    tree_.set_id("when");
    if (!when.is_object()) {
      tree_.fail("when is not an object");
      return;
    }
    std::vector<NodeId> members;
    for (const auto& [name, value] : when.items()) {
      if (!value.is_string() && !value.is_number_integer())
        tree_.fail(shown(name) + " is a string, every a number");
      members.push_back(
          tree_.keyword(name, value.is_string() ? tree_.text(value, name) : tree_.number(value)));
    }
    add_line({.value = tree_.call("when", std::move(members))});
  }

  void add_node(std::size_t index) {
    const GraphNode& node = graph_.nodes[index];
    if (node.type == NodeType::kCondition) return;
    tree_.set_id(node.id);
    if (node.is_effect()) {
      add_line(effect(node));
      return;
    }
    const NodeId tree = node.type == NodeType::kParameter ? parameter(*node.fields) : value(node);
    if (!names_[index].empty()) {
      // A place's name as the target of a line would be a write to the place, not a new name.
      if (is_reserved(names_[index], places_)) {
        tree_.fail("\"" + names_[index] + "\" stands for itself and cannot be given away",
                   "take another name");
      }
      add_line({.target = tree_.name(names_[index]), .value = tree});
    } else {
      trees_[index] = tree;
    }
  }

  void add_line(expr::Statement statement) {
    if (script_.statements.size() == expr::kMaxStatements) {
      tree_.fail("with this node the program has more than " +
                     std::to_string(expr::kMaxStatements) + " lines",
                 "split it");
    }
    script_.statements.push_back(statement);
    script_.statement_origins.push_back(tree_.id());
  }

  expr::Statement effect(const GraphNode& node) {
    const json& fields = *node.fields;
    expr::Statement statement;
    if (node.condition) {
      const GraphNode& condition = graph_.nodes[*node.condition];
      tree_.set_id(condition.id);
      statement.condition = value(condition);
      tree_.set_id(node.id);
    }
    if (node.type == NodeType::kSkip) {
      statement.value = tree_.call("skip", {layer_of(fields["layer"])});
    } else if (node.type == NodeType::kSetter) {
      statement.target = place(fields);
      if (fields.contains("index")) statement.target = part_of(statement.target, fields["index"]);
      statement.value = argument(fields["value"]);
    } else {
      statement.value = tree_.call("save", save_arguments(fields));
    }
    return statement;
  }

  NodeId part_of(NodeId place, const json& index) {
    if (!index.is_array()) return tree_.fail("its index is not a list");
    if (index.empty()) return tree_.fail("its index is empty", "leave it out to write all");
    return subscript(place, index, 0);
  }

  std::vector<NodeId> save_arguments(const json& fields) {
    std::vector<NodeId> arguments = {argument(fields["value"]), tree_.text(fields["name"], "name")};
    const json send = fields.value("send", json(true));
    if (!send.is_boolean()) tree_.fail("its send is not true or false");
    if (send == json(false)) arguments.push_back(tree_.keyword("send", argument(send)));
    return arguments;
  }

  NodeId parameter(const json& fields) {
    std::vector<NodeId> arguments = {tree_.number(fields["value"])};
    for (const char* member : {"min", "max", "ramp_from", "ramp_steps"})
      if (fields.contains(member))
        arguments.push_back(tree_.keyword(member, tree_.number(fields[member])));
    return tree_.call("param", std::move(arguments));
  }

  // --- Values ---

  // The node's own expression; for a condition, the condition's value.
  NodeId value(const GraphNode& node) {
    const json& fields = *node.fields;
    NodeId tree = kNoNode;
    switch (node.type) {
      case NodeType::kGetter:
        tree = place(fields);
        break;
      case NodeType::kOperator:
        tree = operation(fields);
        break;
      case NodeType::kConstant:
        tree = constant(fields);
        break;
      case NodeType::kNoise:
        tree = noise(fields);
        break;
      case NodeType::kSaved:
        tree = tree_.call("saved", {tree_.text(fields["save"], "save")});
        break;
      default:
        tree = argument(fields["value"]);
    }
    if (tree != kNoNode) script_.origins.emplace_back(tree, node.id);
    return tree;
  }

  NodeId place(const json& fields) {
    const bool has_layer = fields.contains("layer");
    const std::string point = fields["point"].is_string() ? fields["point"].get<std::string>() : "";
    const auto row = places_.find(point);
    if (!row || places_.rows()[*row].name != point) {
      std::vector<std::string> known;
      for (const points::Place& one : places_.rows()) known.push_back(one.name);
      return tree_.fail("there is no place \"" + shown(point) + "\"" +
                        expr::suggestion(point.substr(0, kMaxNameBytes), known));
    }
    const points::Place& found = places_.rows()[*row];
    if (found.in_layers() != has_layer) {
      return tree_.fail(point + (has_layer ? " is outside the layers" : " needs its layer"),
                        has_layer ? "leave layer out" : "write \"layer\": 12");
    }
    NodeId tree = tree_.path(has_layer ? layer_of(fields["layer"]) : kNoNode, found.path);
    if (const auto gradient = fields.find("gradient"); gradient != fields.end()) {
      if (!gradient->is_boolean()) return tree_.fail("its gradient is not true or false");
      if (gradient->get<bool>()) tree = tree_.path(tree, "grad");
    }
    if (const auto heads = fields.find("heads"); heads != fields.end())
      tree = tree_.add(Kind::kIndex, {tree_.path(tree, "heads"), item(*heads)});
    return tree;
  }

  NodeId layer_of(const json& layer) {
    return tree_.add(Kind::kIndex, {tree_.name("layers"), layer_number(layer)});
  }

  // Accepts 12, "layer" and "layer+1".
  NodeId layer_number(const json& layer) {
    if (layer.is_number_integer()) return tree_.number(layer);
    const std::string text = layer.is_string() ? layer.get<std::string>() : "";
    const std::string offset = text.size() > 6 && text.size() < 12 ? text.substr(6) : "";
    const bool is_offset = !offset.empty() && std::ranges::all_of(offset, [](char c) {
      return c >= '0' && c <= '9';
    }) && (text[5] == '+' || text[5] == '-');
    if (!text.starts_with("layer") || (text.size() > 5 && !is_offset))
      return tree_.fail("a layer is a number, \"layer\" or \"layer+1\"");
    const NodeId each = tree_.name("layer");
    if (offset.empty()) return each;
    return tree_.sign(find_operator(text.substr(5, 1)), {each, tree_.number(std::stoi(offset))});
  }

  NodeId constant(const json& fields) {
    const auto is = [&](std::initializer_list<const char*> members) {
      const std::size_t others = 2U + (fields.contains("name") ? 1 : 0);
      return fields.size() == members.size() + others &&
             std::ranges::all_of(members, [&](const char* one) { return fields.contains(one); });
    };
    if (is({"value"})) return argument(fields["value"]);
    if (is({"vector", "row"})) {
      const NodeId vector = tree_.call("vector", {tree_.text(fields["vector"], "vector")});
      return tree_.add(Kind::kIndex, {vector, layer_number(fields["row"])});
    }
    if (is({"file", "tensor"})) {
      const NodeId file = tree_.call("file", {tree_.text(fields["file"], "file")});
      return tree_.add(Kind::kIndex, {file, tree_.text(fields["tensor"], "tensor")});
    }
    return tree_.fail("a constant has vector and row, or file and tensor, or value");
  }

  NodeId noise(const json& fields) {
    std::vector<NodeId> arguments = {place(fields)};
    if (fields.contains("distribution"))
      arguments.push_back(tree_.text(fields["distribution"], "distribution"));
    if (fields.contains("seed"))
      arguments.push_back(tree_.keyword("seed", tree_.number(fields["seed"])));
    return tree_.call("noise", std::move(arguments));
  }

  // --- Operators ---

  NodeId operation(const json& fields) {
    if (!fields["operator"].is_string()) return tree_.fail("its operator is not a string");
    if (!fields["arguments"].is_array()) return tree_.fail("its arguments are not a list");
    const std::string op = fields["operator"].get<std::string>();
    const json& arguments = fields["arguments"];
    const Operator known = find_operator(op);
    const json form =
        fields.value("form", json(known != Operator::kNoOperator ? "sign" : "function"));
    if (fields.contains("keywords") && form != "method" && form != "function")
      return tree_.fail("only methods and functions have keywords");
    if (form == "sign") return sign(op, known, arguments);
    if (form == "function") return tree_.call(function(op), call_arguments(fields, 0));
    if (arguments.empty()) return tree_.fail("the operator has no argument");
    if (form == "index") return subscript(argument(arguments[0]), arguments, 1);
    const bool is_attribute = form == "attribute" && arguments.size() == 1;
    if (form != "method" && !is_attribute) {
      return tree_.fail("there is no form \"" +
                            shown(form.is_string() ? form.get<std::string>() : "") + "\" of \"" +
                            shown(op) + "\"",
                        "write sign, method, function, attribute or index");
    }
    if (!expr::is_name(op)) return refuse_operator(op);
    const NodeId member = tree_.path(argument(arguments[0]), op);
    return is_attribute ? member : tree_.call(member, call_arguments(fields, 1));
  }

  NodeId refuse_operator(const std::string& op) {
    return tree_.fail("\"" + shown(op) + "\" is not the name of an operator");
  }

  NodeId sign(const std::string& op, Operator known, const json& arguments) {
    const std::size_t count = known >= Operator::kNegative ? 1 : 2;
    if (known == Operator::kNoOperator || arguments.size() != count) {
      return tree_.fail("\"" + shown(op) + "\" is no sign with " +
                        std::to_string(arguments.size()) + " arguments");
    }
    std::vector<NodeId> operands;
    for (const json& operand : arguments) operands.push_back(argument(operand));
    return tree_.sign(known, std::move(operands));
  }

  // Accepts a name, or a path after `torch`; refuses the words of leaves and lines.
  NodeId function(const std::string& op) {
    const auto words = split_path(op);
    const bool is_word = is_reserved(op, places_) && !is_module(op);
    if (!std::ranges::all_of(words, expr::is_name) || is_word) return refuse_operator(op);
    return tree_.path(words.size() > 1 ? tree_.name("torch") : kNoNode, op);
  }

  std::vector<NodeId> call_arguments(const json& fields, std::size_t first) {
    const json& positional = fields["arguments"];
    std::vector<NodeId> arguments;
    for (std::size_t i = first; i < positional.size(); ++i)
      arguments.push_back(argument(positional[i]));
    const json keywords = fields.value("keywords", json::object());
    if (!keywords.is_object()) tree_.fail("its keywords are not an object");
    for (const auto& [name, value] : keywords.items())
      arguments.push_back(tree_.keyword(name, argument(value)));
    return arguments;
  }

  // Makes object[items], with the items from index `first` on.
  NodeId subscript(NodeId object, const json& items, std::size_t first) {
    std::vector<NodeId> inside;
    for (std::size_t i = first; i < items.size(); ++i) inside.push_back(item(items[i]));
    if (tree_.error()) return kNoNode;
    const bool is_one = inside.size() == 1 && tree_.node(inside[0]).kind != Kind::kTuple;
    return tree_.add(Kind::kIndex,
                     {object, is_one ? inside[0] : tree_.add(Kind::kTuple, std::move(inside))});
  }

  // --- Arguments ---

  NodeId argument(const json& value) {
    if (value.is_null()) return tree_.word(Kind::kNone, "None");
    if (value == true) return tree_.word(Kind::kTrue, "True");
    if (value == false) return tree_.word(Kind::kFalse, "False");
    if (value.is_number()) return tree_.number(value);
    if (!value.is_object() || value.size() != 1) {
      return tree_.fail(
          "an argument is a number, true, false, null, or one of node, string, name, list, "
          "tuple and slice");
    }
    const std::string& kind = value.begin().key();
    const json& inner = value.front();
    if (kind == "node") return use(graph_.by_id.at(inner.get<std::string>()));
    if (kind == "string") return tree_.text(inner, "string");
    if (kind == "name") return free_name(inner.is_string() ? inner.get<std::string>() : "");
    if ((kind == "list" || kind == "tuple") && inner.is_array()) {
      std::vector<NodeId> items;
      for (const json& one : inner) items.push_back(argument(one));
      return tree_.add(kind == "list" ? Kind::kList : Kind::kTuple, std::move(items));
    }
    return tree_.fail("there is no argument of the kind \"" + shown(kind) + "\" here");
  }

  // An item between brackets: an argument or a slice.
  NodeId item(const json& value) {
    if (!value.is_object() || value.size() != 1 || !value.contains("slice")) return argument(value);
    const json& parts = value["slice"];
    if (!parts.is_array() || parts.size() != 3)
      return tree_.fail("a slice has three parts: null for none");
    std::vector<NodeId> trees;
    for (const json& part : parts) trees.push_back(part.is_null() ? kNoNode : argument(part));
    return tree_.add(Kind::kSlice, std::move(trees));
  }

  NodeId use(std::size_t index) {
    return names_[index].empty() ? trees_[index] : tree_.name(names_[index]);
  }

  // A name that is not the name of a node.
  NodeId free_name(const std::string& text) {
    constexpr std::array<std::string_view, 6> kConstants = {"layer", "torch", "inf",
                                                            "nan",   "pi",    "e"};
    if (text == "...") return tree_.word(Kind::kEllipsis, text);
    const auto words = split_path(text);
    const bool is_module = words.size() > 1 && words[0] == "torch";
    const bool is_constant = std::ranges::find(kConstants, text) != kConstants.end();
    const bool is_free = words.size() == 1 && !is_reserved(text, places_) && !taken_.contains(text);
    if (!std::ranges::all_of(words, expr::is_name) || !(is_module || is_constant || is_free)) {
      return tree_.fail("\"" + shown(text) + "\" is no name that stands alone",
                        "a node's value is {\"node\": \"1\"}");
    }
    return tree_.path(kNoNode, text);
  }

  const Graph& graph_;
  const points::PlaceTable& places_;
  const std::vector<std::string> names_;  // of the lines, by node
  const std::set<std::string> taken_;     // the same names as a set
  std::vector<NodeId> trees_;             // of the nodes without a line
  TreeBuilder tree_;
  expr::BuiltScript script_;
};

}  // namespace

base::Result<expr::Script> read_script(const json& graph, const points::PlaceTable& places) {
  const auto nodes = read_graph(graph);
  if (!nodes.ok()) return nodes.error();
  return ScriptBuilder(nodes.value(), places).build(graph);
}

}  // namespace tt::graph
