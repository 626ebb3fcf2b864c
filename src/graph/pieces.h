#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "src/graph/graph_nodes.h"

namespace tt::graph {

/// Text, and how tightly what is outermost in it binds.
struct Piece {
  std::string text;
  int level = 0;
};

/// The levels of the language, from the loosest to the tightest.
inline constexpr int kComparisonLevel = 1;
inline constexpr int kUnaryLevel = 7;
inline constexpr int kPowerLevel = 8;
inline constexpr int kNumberLevel = 9;  // of a number, which takes no dot behind it
inline constexpr int kPrimaryLevel = 10;
inline constexpr int kAtomLevel = 11;

/// Writes single nodes of a graph as text. What they use must have been put in before. After the
/// first problem all is empty. Thread: one.
class PieceWriter {
 public:
  explicit PieceWriter(const Graph& graph) : graph_(graph), pieces_(graph.nodes.size()) {}

  /// What stands for the node where it is used.
  void put(std::size_t node, Piece piece) { pieces_[node] = std::move(piece); }
  const Piece& at(std::size_t node) const { return pieces_[node]; }

  /// The node's own expression; of a condition its value.
  Piece value(const GraphNode& node);
  /// An argument, in parentheses if it binds less tightly than `level`.
  std::string argument(const nlohmann::json& value, int level = 0);
  /// "layers[12].output", or "layers[5]" of a node without a point.
  std::string place(const GraphNode& node);
  /// "[:, -1]"; empty if all is meant.
  std::string index(const GraphNode& node);
  /// A number that may have a sign.
  std::string number(const nlohmann::json& value);
  /// In double quotes; empty after a problem.
  std::string text(const nlohmann::json& fields, const char* member);
  std::string fail(std::string message, std::string remedy = "");

  /// Problems are told of this node.
  void set_node(const GraphNode& node) { node_ = &node; }
  const std::optional<base::Error>& error() const { return error_; }

 private:
  Piece to_piece(const nlohmann::json& value);
  Piece name(const nlohmann::json& value);
  std::string items(const nlohmann::json& list, std::size_t first);
  std::string slice(const nlohmann::json& parts);
  std::string layer(const nlohmann::json& layer);
  Piece constant(const nlohmann::json& fields);
  Piece noise(const GraphNode& node);
  Piece operation(const nlohmann::json& fields);
  Piece sign(const nlohmann::json& fields, const std::string& op);
  Piece call(const nlohmann::json& fields, const std::string& op, bool is_method);
  bool is_call_name(const std::string& op) const;

  const Graph& graph_;
  std::vector<Piece> pieces_;
  const GraphNode* node_ = nullptr;
  std::optional<base::Error> error_;
};

}  // namespace tt::graph
