#include "src/graph/graph_nodes.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "tensor_tracer/expr/diagnostic.h"
#include "tensor_tracer/expr/script.h"
#include "tensor_tracer/graph/json.h"

namespace tt::graph {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxIdBytes = 60;

struct TypeRow {
  std::string_view name;
  std::vector<std::string> needed;
  std::vector<std::string> others;
};

// In the order of NodeType. Members besides id and type.
const std::array<TypeRow, 10>& type_rows() {
  static const std::array<TypeRow, 10> rows = {
      TypeRow{"getter", {"point"}, {"layer", "gradient", "heads", "name"}},
      TypeRow{"setter", {"point", "value"}, {"layer", "gradient", "heads", "index", "condition"}},
      TypeRow{"operator", {"operator", "arguments"}, {"keywords", "form", "name"}},
      TypeRow{"constant", {}, {"vector", "row", "file", "tensor", "value", "name"}},
      TypeRow{"noise", {"point"}, {"layer", "distribution", "seed", "name"}},
      TypeRow{"saved", {"save"}, {"name"}},
      TypeRow{"parameter", {"name", "value"}, {"min", "max", "ramp_from", "ramp_steps"}},
      TypeRow{"condition", {"value"}, {}},
      TypeRow{"save", {"name", "value"}, {"send", "condition"}},
      TypeRow{"skip", {"layer"}, {"condition"}},
  };
  return rows;
}

bool is_id_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

class GraphReader {
 public:
  base::Result<Graph> read(const json& whole) {
    bool is_sound = read_whole(whole);
    for (std::size_t i = 0; is_sound && i < whole["nodes"].size(); ++i)
      is_sound = read_node(whole["nodes"][i], i);
    for (GraphNode& node : graph_.nodes)
      is_sound = is_sound && find_needs(*node.fields, node, 0) && find_condition(node);
    marks_.resize(graph_.nodes.size());
    for (std::size_t i = 0; is_sound && i < graph_.nodes.size(); ++i) is_sound = visit(i);
    if (!is_sound) return *error_;
    return std::move(graph_);
  }

 private:
  bool fail(const std::string& where, std::string message, std::string remedy = "") {
    if (!error_) error_ = graph_error(where, std::move(message), std::move(remedy));
    return false;
  }

  bool read_whole(const json& whole) {
    if (!whole.is_object()) return fail("", "a graph is an object", "docs/intervention_graph.md");
    for (const auto& [key, value] : whole.items())
      if (key != "version" && key != "when" && key != "nodes")
        return fail(shown(key), "a graph has no such member", "it has version, when and nodes");
    const std::string version = std::to_string(kGraphVersion);
    if (whole.value("version", json()) != kGraphVersion) {
      return fail("version", "the version of the graph is not " + version,
                  "write \"version\": " + version);
    }
    const auto nodes = whole.find("nodes");
    if (nodes == whole.end() || !nodes->is_array())
      return fail("nodes", "the nodes of a graph are a list", "write \"nodes\": [...]");
    if (nodes->size() > expr::kScriptLimits.max_nodes) {
      return fail("nodes", "the graph has " + std::to_string(nodes->size()) +
                               " nodes, the limit is " +
                               std::to_string(expr::kScriptLimits.max_nodes));
    }
    return true;
  }

  bool read_node(const json& fields, std::size_t place) {
    const std::string where = "nodes[" + std::to_string(place) + "]";
    if (!fields.is_object()) return fail(where, "a node is an object");
    const auto id = fields.find("id");
    if (id == fields.end() || !id->is_string()) return fail(where, "its id is not a string");
    GraphNode node;
    node.fields = &fields;
    node.id = id->get<std::string>();
    if (node.id.empty() || node.id.size() > kMaxIdBytes ||
        !std::ranges::all_of(node.id, is_id_byte)) {
      return fail(where, "the id \"" + shown(node.id) + "\" is not made of letters, digits and _",
                  "write \"id\": \"1\"");
    }
    if (!read_members(fields, node)) return false;
    if (!graph_.by_id.emplace(node.id, graph_.nodes.size()).second)
      return fail(node.id, "two nodes have this id");
    graph_.nodes.push_back(std::move(node));
    return true;
  }

  bool read_members(const json& fields, GraphNode& node) {
    const auto type = fields.find("type");
    const std::string name =
        type != fields.end() && type->is_string() ? type->get<std::string>() : "";
    const auto row = std::ranges::find(type_rows(), name, &TypeRow::name);
    if (row == type_rows().end()) {
      std::vector<std::string> known;
      for (const TypeRow& one : type_rows()) known.emplace_back(one.name);
      return fail(node.id, "there is no type \"" + shown(name) + "\"" +
                               expr::suggestion(name.substr(0, kMaxIdBytes), known));
    }
    node.type = static_cast<NodeType>(row - type_rows().begin());
    for (const std::string& member : row->needed)
      if (!fields.contains(member))
        return fail(node.id, "the " + name + " has no \"" + member + "\"");
    std::vector<std::string> known = {"id", "type"};
    known.insert(known.end(), row->needed.begin(), row->needed.end());
    known.insert(known.end(), row->others.begin(), row->others.end());
    for (const auto& [key, value] : fields.items()) {
      if (std::ranges::find(known, key) != known.end()) continue;
      return fail(node.id, "a " + name + " has no member \"" + shown(key) + "\"" +
                               expr::suggestion(key.substr(0, kMaxIdBytes), known));
    }
    return read_name(fields, node);
  }

  bool read_name(const json& fields, GraphNode& node) {
    const auto name = fields.find("name");
    if (name == fields.end()) return true;
    if (!name->is_string()) return fail(node.id, "its name is not a string");
    if (!node.is_value()) return true;
    node.name = name->get<std::string>();
    return expr::is_name(node.name) ||
           fail(node.id, "\"" + shown(node.name) + "\" cannot be a name",
                "a name is made of letters, digits and single _, and is no keyword");
  }

  // Finds the nodes that `part` uses. `part` is the whole node or a value in it.
  bool find_needs(const json& part, GraphNode& node, std::size_t depth) {
    if (depth > 2 * expr::kScriptLimits.max_depth) {
      return fail(node.id, "its arguments are nested deeper than " +
                               std::to_string(expr::kScriptLimits.max_depth));
    }
    if (!part.is_structured()) return true;
    if (part.is_object() && part.contains("node")) return add_need(part["node"], node);
    return std::ranges::all_of(
        part, [&](const json& inner) { return find_needs(inner, node, depth + 1); });
  }

  bool find_condition(GraphNode& node) {
    const auto id = node.fields->find("condition");
    if (id == node.fields->end()) return true;
    const auto found =
        id->is_string() ? graph_.by_id.find(id->get<std::string>()) : graph_.by_id.end();
    if (found == graph_.by_id.end() || graph_.nodes[found->second].type != NodeType::kCondition)
      return fail(node.id, "its condition is not the id of a condition");
    node.condition = found->second;
    node.needs.push_back(found->second);
    return true;
  }

  bool add_need(const json& id, GraphNode& node) {
    static const std::string none;
    const std::string& text = id.is_string() ? id.get_ref<const std::string&>() : none;
    const auto found = graph_.by_id.find(text);
    if (found == graph_.by_id.end())
      return fail(node.id, "it uses the node \"" + shown(text) + "\", which is not there");
    if (!graph_.nodes[found->second].is_value())
      return fail(node.id, "it uses the node " + text + ", which gives no value");
    node.needs.push_back(found->second);
    return true;
  }

  // Visits the nodes that a node uses, then the node. The depth is at most
  // expr::kScriptLimits.max_nodes.
  bool visit(std::size_t index) {
    const GraphNode& node = graph_.nodes[index];
    if (marks_[index] == Mark::kDone) return true;
    if (marks_[index] == Mark::kOpen) {
      return fail(node.id, "the node needs its own value: a graph has no cycle",
                  "for the value of an earlier pass there is a saved node");
    }
    marks_[index] = Mark::kOpen;
    for (const std::size_t need : node.needs)
      if (!visit(need)) return false;
    marks_[index] = Mark::kDone;
    graph_.order.push_back(index);
    return true;
  }

  enum class Mark : std::uint8_t { kNew, kOpen, kDone };

  Graph graph_;
  std::vector<Mark> marks_;
  std::optional<base::Error> error_;
};

}  // namespace

base::Error graph_error(const std::string& where, std::string message, std::string remedy) {
  return {"invalid_graph", std::move(message), where, std::move(remedy)};
}

std::string shown(const std::string& text) {
  std::string start = text.substr(0, 40);
  for (char& c : start)
    if (c < ' ' || c > '~') c = '?';
  return text.size() > start.size() ? start + "..." : start;
}

base::Result<Graph> read_graph(const json& graph) { return GraphReader().read(graph); }

}  // namespace tt::graph
