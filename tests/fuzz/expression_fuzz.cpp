// Text of an expression → a tree within the limits, or an error that can be shown.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tensor_tracer/expr/parse.h"
#include "tests/fuzz/fuzz.h"

namespace {

using tt::expr::Ast;
using tt::expr::Kind;
using tt::expr::Limits;
using tt::expr::Node;
using tt::expr::NodeId;
using tt::fuzz::require;

void check_tree(const Ast& ast, std::string_view source, const Limits& limits) {
  require(ast.source() == source, "the tree keeps its source");
  require(ast.size() > 0 && ast.size() <= limits.max_nodes, "max_nodes");
  require(ast.root() < ast.size(), "the root is a node");
  std::vector<std::size_t> depth(ast.size(), 1);
  for (NodeId id = 0; id < ast.size(); ++id) {
    const Node& node = ast.node(id);
    require(node.span.begin <= node.span.end && node.span.end <= source.size(), "span");
    require(node.name_span.begin <= node.name_span.end && node.name_span.end <= source.size(),
            "name_span");
    for (const NodeId child : node.children) {
      const bool absent = child == tt::expr::kNoNode;
      require(absent ? node.kind == Kind::kSlice : child < id, "children come before parents");
      depth[id] = std::max(depth[id], absent ? 1 : depth[child] + 1);
    }
    require(depth[id] <= limits.max_depth, "max_depth");
  }
}

void check_error(const tt::base::Error& error) {
  require(error.code == "invalid_expression", "code");
  require(error.message.find("\n  ") != std::string::npos, "the message shows the place");
  for (const unsigned char c : error.message + error.where + error.remedy)
    require((c >= ' ' && c != 0x7F) || c == '\n', "control characters are not shown");
  static_cast<void>(nlohmann::json(error.message).dump());  // throws unless it is UTF-8
}

bool check(std::string_view source, const Limits& limits) {
  const auto ast = tt::expr::parse(source, limits);
  if (ast.ok())
    check_tree(ast.value(), source, limits);
  else
    check_error(ast.error());
  return ast.ok();
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr Limits kTight{
      .max_source_bytes = 100, .max_depth = 6, .max_nodes = 20, .max_digits = 5};
  const std::string_view source = tt::fuzz::as_text(data, size);
  const bool wide = check(source, {});
  require(!check(source, kTight) || wide, "tighter limits refuse more");
  return 0;
}
