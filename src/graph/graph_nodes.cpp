#include "src/graph/graph_nodes.h"

#include <algorithm>
#include <array>
#include <queue>

#include "src/graph/reading.h"
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

// In the order of NodeType; besides id and type.
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

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_word_byte(char c) { return is_letter(c) || (c >= '0' && c <= '9'); }

class GraphReader {
 public:
  base::Result<Graph> read(const json& whole) {
    if (!read_whole(whole)) return *error_;
    const json& nodes = whole["nodes"];
    for (std::size_t i = 0; i < nodes.size() && !error_; ++i) read_node(nodes[i], i);
    for (GraphNode& node : graph_.nodes) {
      if (!error_) find_needs(node);
    }
    if (!error_) sort();
    if (error_) return *error_;
    return std::move(graph_);
  }

 private:
  bool fail(const std::string& where, std::string message, std::string remedy = "") {
    if (!error_) error_ = graph_error(where, std::move(message), std::move(remedy));
    return false;
  }

  bool read_whole(const json& whole) {
    if (!whole.is_object()) return fail("", "a graph is an object", "docs/intervention_graph.md");
    for (const auto& [key, value] : whole.items()) {
      if (key != "version" && key != "when" && key != "nodes") {
        return fail(shown(key), "a graph has no such member", "it has version, when and nodes");
      }
    }
    const auto version = whole.find("version");
    if (version == whole.end() || *version != kGraphVersion) {
      return fail("version", "the version of the graph is not " + std::to_string(kGraphVersion),
                  "write \"version\": " + std::to_string(kGraphVersion));
    }
    const auto nodes = whole.find("nodes");
    if (nodes == whole.end() || !nodes->is_array()) {
      return fail("nodes", "the nodes of a graph are a list", "write \"nodes\": [...]");
    }
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
    node.place = place;
    node.id = id->get<std::string>();
    if (node.id.empty() || node.id.size() > kMaxIdBytes ||
        !std::ranges::all_of(node.id, is_word_byte)) {
      return fail(where, "the id \"" + shown(node.id) + "\" is not made of letters, digits and _",
                  "write \"id\": \"1\"");
    }
    if (!read_members(fields, node)) return false;
    if (!graph_.by_id.emplace(node.id, graph_.nodes.size()).second) {
      return fail(node.id, "two nodes have this id");
    }
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
    for (const std::string& member : row->needed) {
      if (!fields.contains(member)) {
        return fail(node.id, "the " + name + " has no \"" + member + "\"");
      }
    }
    for (auto member = fields.begin(); member != fields.end(); ++member) {
      const std::string& key = member.key();
      const bool known = key == "id" || key == "type" ||
                         std::ranges::find(row->needed, key) != row->needed.end() ||
                         std::ranges::find(row->others, key) != row->others.end();
      if (!known) {
        std::vector<std::string> members = row->needed;
        members.insert(members.end(), row->others.begin(), row->others.end());
        return fail(node.id, "a " + name + " has no member \"" + shown(key) + "\"" +
                                 expr::suggestion(key.substr(0, kMaxIdBytes), members));
      }
    }
    return read_name(fields, node);
  }

  bool read_name(const json& fields, GraphNode& node) {
    const auto name = fields.find("name");
    if (name == fields.end()) return true;
    if (!name->is_string()) return fail(node.id, "its name is not a string");
    if (!node.is_value()) return true;
    node.name = name->get<std::string>();
    return is_identifier(node.name) ||
           fail(node.id, "\"" + shown(node.name) + "\" cannot be a name",
                "a name is made of letters, digits and single _");
  }

  bool find_needs(GraphNode& node) {
    const json& fields = *node.fields;
    for (const char* member : {"heads", "value"}) {
      const bool is_number = node.type == NodeType::kParameter;
      if (!is_number && fields.contains(member) && !find_needs_in(fields[member], node, 0)) {
        return false;
      }
    }
    for (const char* member : {"index", "arguments"}) {
      if (!fields.contains(member)) continue;
      if (!fields[member].is_array()) {
        return fail(node.id, std::string("its ") + member + " is not a list");
      }
      for (const json& item : fields[member]) {
        if (!find_needs_in(item, node, 0)) return false;
      }
    }
    if (fields.contains("keywords")) {
      if (!fields["keywords"].is_object()) return fail(node.id, "its keywords are not an object");
      for (const json& item : fields["keywords"]) {
        if (!find_needs_in(item, node, 0)) return false;
      }
    }
    return !fields.contains("condition") || find_condition(fields["condition"], node);
  }

  bool find_condition(const json& id, GraphNode& node) {
    const auto found =
        id.is_string() ? graph_.by_id.find(id.get<std::string>()) : graph_.by_id.end();
    if (found == graph_.by_id.end() || graph_.nodes[found->second].type != NodeType::kCondition) {
      return fail(node.id, "its condition is not the id of a condition");
    }
    node.condition = found->second;
    return true;
  }

  bool find_needs_in(const json& argument, GraphNode& node, std::size_t depth) {
    if (depth > expr::kScriptLimits.max_depth) {
      return fail(node.id, "its arguments are nested deeper than " +
                               std::to_string(expr::kScriptLimits.max_depth));
    }
    if (!argument.is_object()) return true;
    for (auto member = argument.begin(); member != argument.end(); ++member) {
      if (member.key() == "node" && !add_need(*member, node)) return false;
      if (!member->is_array()) continue;
      for (const json& item : *member) {
        if (!find_needs_in(item, node, depth + 1)) return false;
      }
    }
    return true;
  }

  bool add_need(const json& id, GraphNode& node) {
    static const std::string none;
    const std::string& text = id.is_string() ? id.get_ref<const std::string&>() : none;
    const auto found = graph_.by_id.find(text);
    if (found == graph_.by_id.end()) {
      return fail(node.id, "it uses the node \"" + shown(text) + "\", which is not there");
    }
    if (!graph_.nodes[found->second].is_value()) {
      return fail(node.id, "it uses the node " + text + ", which gives no value");
    }
    node.needs.push_back(found->second);
    return true;
  }

  // Kahn's algorithm; of those that could come next the one that is listed first.
  bool sort() {
    const std::size_t count = graph_.nodes.size();
    std::vector<std::size_t> missing(count, 0);
    std::vector<std::vector<std::size_t>> users(count);
    const auto add_edge = [&](std::size_t from, std::size_t to) {
      users[from].push_back(to);
      ++missing[to];
    };
    for (std::size_t i = 0; i < count; ++i) {
      for (const std::size_t need : graph_.nodes[i].needs) add_edge(need, i);
      if (graph_.nodes[i].condition) add_edge(*graph_.nodes[i].condition, i);
    }
    std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
    for (std::size_t i = 0; i < count; ++i) {
      if (missing[i] == 0) ready.push(i);
    }
    while (!ready.empty()) {
      const std::size_t next = ready.top();
      ready.pop();
      graph_.order.push_back(next);
      for (const std::size_t user : users[next]) {
        if (--missing[user] == 0) ready.push(user);
      }
    }
    return graph_.order.size() == count || refuse_cycle(missing);
  }

  // Every node that is left needs one that is left, so that going back must come round.
  bool refuse_cycle(const std::vector<std::size_t>& missing) {
    std::size_t at = 0;
    while (missing[at] == 0) ++at;
    std::vector<bool> passed(missing.size(), false);
    while (!passed[at]) {
      passed[at] = true;
      const GraphNode& node = graph_.nodes[at];
      const auto left =
          std::ranges::find_if(node.needs, [&](std::size_t need) { return missing[need] > 0; });
      at = left != node.needs.end() ? *left : *node.condition;
    }
    return fail(graph_.nodes[at].id, "the node needs its own value: a graph has no cycle",
                "for the value of an earlier pass there is a saved node");
  }

  Graph graph_;
  std::optional<base::Error> error_;
};

}  // namespace

base::Error graph_error(const std::string& where, std::string message, std::string remedy) {
  return {"invalid_graph", std::move(message), where, std::move(remedy)};
}

std::string shown(const std::string& text) {
  std::string piece = text.substr(0, 40);
  for (char& c : piece) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text.size() > piece.size() ? piece + "..." : piece;
}

bool is_identifier(const std::string& text) {
  return !text.empty() && text.size() <= kMaxNameBytes && is_letter(text[0]) &&
         std::ranges::all_of(text, is_word_byte) && text.find("__") == std::string::npos;
}

base::Result<Graph> read_graph(const json& graph) { return GraphReader().read(graph); }

}  // namespace tt::graph
