#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tensor_tracer/base/result.h"

namespace tt::graph {

enum class NodeType {
  kGetter,
  kSetter,
  kOperator,
  kConstant,
  kNoise,
  kSaved,
  kParameter,
  kCondition,
  kSave,
  kSkip,
};

/// One node of a graph in JSON. All its members are known, and no required member is missing. Their
/// values are not checked, except `id`, `name` and references to other nodes.
struct GraphNode {
  const nlohmann::json* fields = nullptr;
  std::string id;
  NodeType type = NodeType::kGetter;
  std::string name;                      // of the value's line; may be empty
  std::vector<std::size_t> needs;        // nodes that this node uses, by index, one for each use
  std::optional<std::size_t> condition;  // of an effect; also in `needs`

  bool is_effect() const {
    return type == NodeType::kSetter || type == NodeType::kSave || type == NodeType::kSkip;
  }
  bool is_value() const { return !is_effect() && type != NodeType::kCondition; }
};

struct Graph {
  std::vector<GraphNode> nodes;
  std::unordered_map<std::string, std::size_t> by_id;
  std::vector<std::size_t> order;  // as listed, except that a used node comes before its user
};

/// An error with the code "invalid_graph".
base::Error graph_error(const std::string& where, std::string message, std::string remedy = "");

/// A text from outside, made short and without control characters.
std::string shown(const std::string& text);

/// Reads the nodes of `graph`, which must outlive them. Thread: any.
base::Result<Graph> read_graph(const nlohmann::json& graph);

}  // namespace tt::graph
