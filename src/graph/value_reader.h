#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>

#include "src/graph/reading.h"

namespace tt::graph {

/// The names that lines give.
struct Names {
  std::map<std::string, std::size_t, std::less<>> parameters;  // so far, by index
  std::map<std::string, std::size_t, std::less<>> values;      // so far, by index
  std::map<std::string, std::size_t, std::less<>> lines;       // all of them, with the line

  bool has(const std::string& name) const {
    return parameters.contains(name) || values.contains(name);
  }
};

/// The expression at `root` with the leaves that it is made of; false after a problem.
bool read_value(Reading& reading, const Names& names, expr::NodeId root, Value& value);

enum class Found { kLeaf, kNothing, kProblem };

/// Whether all of `node` is one leaf.
Found find_leaf(Reading& reading, const Names& names, expr::NodeId node, Leaf& leaf);

}  // namespace tt::graph
