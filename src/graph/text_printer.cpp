#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "src/graph/pieces.h"
#include "src/graph/reading.h"
#include "src/graph/words.h"
#include "tensor_tracer/base/check.h"
#include "tensor_tracer/graph/json.h"

namespace tt::graph {
namespace {

using nlohmann::json;

constexpr std::array kWhenMembers = {"phase",  "prompts", "steps",  "every",
                                     "layers", "rows",    "tokens", "token_text"};

// Writes a graph line by line. A node without a name is written where it is used, if that is one
// place and no write in between could change what it reads.
class TextPrinter {
 public:
  TextPrinter(const Graph& graph, std::size_t max_bytes)
      : graph_(graph), max_bytes_(max_bytes), pieces_(graph) {
    for (const GraphNode& node : graph.nodes) names_.insert(node.name);
  }

  base::Result<std::string> print(const json& whole) {
    choose_lines();
    if (whole.contains("when")) print_when(whole["when"]);
    for (const std::size_t index : graph_.order) {
      if (error_) break;
      print_node(index);
    }
    if (error_) return *error_;
    return std::move(text_);
  }

 private:
  // --- Which nodes get a line ---

  void choose_lines() {
    count_uses();
    const std::size_t count = graph_.nodes.size();
    std::vector<std::size_t> setters_up_to(count + 1, 0);
    std::vector<std::size_t> position(count);
    for (std::size_t i = 0; i < count; ++i) {
      position[graph_.order[i]] = i;
      const bool is_setter = graph_.nodes[graph_.order[i]].type == NodeType::kSetter;
      setters_up_to[i + 1] = setters_up_to[i] + (is_setter ? 1 : 0);
    }
    has_line_.assign(count, false);
    depths_.assign(count, 0);
    line_of_ = position;
    for (auto at = graph_.order.rbegin(); at != graph_.order.rend(); ++at) {
      const GraphNode& node = graph_.nodes[*at];
      if (node.type == NodeType::kCondition) {
        line_of_[*at] = user_[*at] < count ? line_of_[user_[*at]] : position[*at];
      }
      if (!node.is_value()) continue;
      const bool is_used_once = uses_[*at] == 1;
      const std::size_t line = is_used_once ? line_of_[user_[*at]] : position[*at];
      const bool is_read_later =
          node.type == NodeType::kGetter && setters_up_to[line] != setters_up_to[position[*at]];
      has_line_[*at] = !node.name.empty() || !is_used_once || is_read_later;
      if (!has_line_[*at]) line_of_[*at] = line;
    }
  }

  // A condition is written as often as effects have it.
  void count_uses() {
    const std::size_t count = graph_.nodes.size();
    uses_.assign(count, 0);
    user_.assign(count, count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto condition = graph_.nodes[i].condition;
      if (!condition) continue;
      ++uses_[*condition];
      user_[*condition] = i;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const GraphNode& node = graph_.nodes[i];
      const std::size_t times = node.type == NodeType::kCondition ? uses_[i] : 1;
      for (const std::size_t need : node.needs) {
        uses_[need] += times;
        user_[need] = i;
      }
    }
  }

  // --- Lines ---

  void print_line(const std::string& line) {
    if (text_.size() + line.size() >= max_bytes_) {
      fail("", "as text the graph has more than " + std::to_string(max_bytes_) + " bytes",
           "split it into several programs");
    }
    if (!error_) text_ += line + "\n";
  }

  void print_when(const json& when) {
    if (!when.is_object()) return fail("when", "when is not an object");
    std::string line;
    for (const auto& [member, value] : when.items()) {
      const std::string name = member;
      if (std::ranges::find(kWhenMembers, name) == kWhenMembers.end()) {
        const std::vector<std::string> known(kWhenMembers.begin(), kWhenMembers.end());
        return fail("when", "when has no member \"" + shown(name) + "\"" +
                                expr::suggestion(name.substr(0, kMaxNameBytes), known));
      }
      if (!value.is_string() && !value.is_number_integer()) {
        return fail("when", name + " is a string, every a number");
      }
      GraphNode node;
      node.id = "when";
      pieces_.set_node(node);
      line += (line.empty() ? "" : ", ") + name + "=" +
              (value.is_string() ? pieces_.text(when, name.c_str()) : pieces_.number(value));
    }
    print_line("when(" + line + ")");
    if (!error_) error_ = pieces_.error();
  }

  void print_node(std::size_t index) {
    const GraphNode& node = graph_.nodes[index];
    pieces_.set_node(node);
    if (node.type == NodeType::kParameter) {
      print_parameter(index);
    } else if (node.is_effect()) {
      print_effect(node);
    } else if (!has_line_[index]) {
      put(index, pieces_.value(node));
    } else {
      const std::string name = node.name.empty() ? name_for(node) : node.name;
      print_line(name + " = " + pieces_.value(node).text);
      put(index, {name, kAtomLevel});
    }
    if (!error_) error_ = pieces_.error();
  }

  // v and its id, or a number where that is no name or another one's.
  std::string name_for(const GraphNode& node) {
    std::string name = "v" + node.id;
    while (!is_identifier(name) || is_reserved(name) || !names_.insert(name).second) {
      name = "v" + std::to_string(++numbers_);
    }
    return name;
  }

  void put(std::size_t index, Piece piece) {
    const std::size_t depth = has_line_[index] ? 0 : depth_below(index) + 1;
    depths_[index] = depth;
    if (depth > expr::kScriptLimits.max_depth) {
      fail(graph_.nodes[index].id,
           "with what it uses it is nested deeper than " +
               std::to_string(expr::kScriptLimits.max_depth),
           "give some of the nodes names");
    }
    if (piece.text.size() > max_bytes_) {
      fail(graph_.nodes[index].id, "its text is longer than a program may be", "split it");
    }
    pieces_.put(index, std::move(piece));
  }

  std::size_t depth_below(std::size_t index) const {
    std::size_t depth = 0;
    for (const std::size_t need : graph_.nodes[index].needs) depth = std::max(depth, depths_[need]);
    return depth;
  }

  void print_parameter(std::size_t index) {
    const json& fields = *graph_.nodes[index].fields;
    std::string line = graph_.nodes[index].name + " = param(" + pieces_.number(fields["value"]);
    for (const char* member : {"min", "max", "ramp_from", "ramp_steps"}) {
      if (!fields.contains(member)) continue;
      line += std::string(", ") + member + "=" + pieces_.number(fields[member]);
    }
    print_line(line + ")");
    put(index, {graph_.nodes[index].name, kAtomLevel});
  }

  void print_effect(const GraphNode& node) {
    const json& fields = *node.fields;
    std::string line = node.condition ? "if " + pieces_.at(*node.condition).text + ": " : "";
    if (node.type == NodeType::kSetter) {
      line += pieces_.place(node) + pieces_.index(node) + " = " + pieces_.argument(fields["value"]);
    } else if (node.type == NodeType::kSkip) {
      line += "skip(" + pieces_.place(node) + ")";
    } else {
      line += "save(" + pieces_.argument(fields["value"]) + ", " + pieces_.text(fields, "name");
      const json send = fields.value("send", json(true));
      if (!send.is_boolean()) pieces_.fail("its send is not true or false");
      line += send == json(false) ? ", send=False)" : ")";
    }
    print_line(line);
  }

  void fail(const std::string& where, std::string message, std::string remedy = "") {
    if (!error_) error_ = graph_error(where, std::move(message), std::move(remedy));
  }

  const Graph& graph_;
  std::size_t max_bytes_;
  PieceWriter pieces_;
  std::vector<std::size_t> uses_;
  std::vector<std::size_t> user_;     // the last one; the number of nodes if there is none
  std::vector<std::size_t> line_of_;  // the position in the order at which a node is written
  std::vector<bool> has_line_;
  std::vector<std::size_t> depths_;  // of what is written for a node
  std::set<std::string> names_;      // that lines have
  std::size_t numbers_ = 0;          // taken for nodes whose ids make no name
  std::string text_;
  std::optional<base::Error> error_;
};

base::Result<std::string> print_graph(const json& whole, std::size_t max_bytes) {
  const auto graph = read_graph(whole);
  if (!graph.ok()) return graph.error();
  return TextPrinter(graph.value(), max_bytes).print(whole);
}

}  // namespace

std::string to_text(const Program& program) {
  const auto text = print_graph(to_json(program), std::numeric_limits<std::size_t>::max());
  TT_CHECK(text.ok(), text.ok() ? "" : base::to_string(text.error()));
  return text.value();
}

base::Result<std::string> to_text(const json& graph) {
  return print_graph(graph, expr::kScriptLimits.max_source_bytes);
}

base::Result<Program> read_program(const json& text_or_graph, const Model& model) {
  if (text_or_graph.is_string()) {
    return parse_program(text_or_graph.get_ref<const std::string&>(), model);
  }
  const auto text = to_text(text_or_graph);
  if (!text.ok()) return text.error();
  return parse_program(text.value(), model);
}

}  // namespace tt::graph
