#include "src/graph/graph_lines.h"

#include <set>

#include "src/graph/words.h"
#include "tensor_tracer/expr/script.h"

namespace tt::graph {
namespace {

// The number of uses of a node, and the position in the order at which its user is written.
struct Use {
  std::size_t times = 0;
  std::size_t line = 0;
};

// For each position in the order, the number of setters before it.
std::vector<std::size_t> count_setters(const Graph& graph) {
  std::vector<std::size_t> before(graph.order.size() + 1, 0);
  for (std::size_t i = 0; i < graph.order.size(); ++i) {
    const bool is_setter = graph.nodes[graph.order[i]].type == NodeType::kSetter;
    before[i + 1] = before[i] + (is_setter ? 1 : 0);
  }
  return before;
}

// Goes from the last node to the first, so that all uses of a node are known.
std::vector<bool> find_lines(const Graph& graph) {
  const std::vector<std::size_t> setters = count_setters(graph);
  std::vector<bool> has_line(graph.nodes.size());
  std::vector<Use> uses(graph.nodes.size());
  for (std::size_t position = graph.order.size(); position-- > 0;) {
    const std::size_t index = graph.order[position];
    const GraphNode& node = graph.nodes[index];
    const Use& use = uses[index];
    const bool is_read_later =
        node.type == NodeType::kGetter && setters[use.line] != setters[position];
    has_line[index] = node.is_value() && (!node.name.empty() || use.times != 1 || is_read_later);
    const bool is_inside = !node.is_effect() && !has_line[index];
    // A condition is written once for each of its effects.
    const std::size_t times = node.type == NodeType::kCondition ? use.times : 1;
    for (const std::size_t need : node.needs) {
      uses[need].times += times;
      uses[need].line = is_inside ? use.line : position;
    }
  }
  return has_line;
}

}  // namespace

std::vector<std::string> choose_lines(const Graph& graph, const points::PlaceTable& places) {
  const std::vector<bool> has_line = find_lines(graph);
  std::vector<std::string> names;
  for (const GraphNode& node : graph.nodes) names.push_back(node.name);
  std::set<std::string> taken(names.begin(), names.end());
  std::size_t number = 0;
  for (const std::size_t index : graph.order) {
    if (!has_line[index] || !names[index].empty()) continue;
    // The name is "v" and the id. If this is not a name, or is already used, it is "v" and a
    // number.
    std::string name = "v" + graph.nodes[index].id;
    while (!expr::is_name(name) || is_reserved(name, places) || !taken.insert(name).second)
      name = "v" + std::to_string(++number);
    names[index] = std::move(name);
  }
  return names;
}

}  // namespace tt::graph
