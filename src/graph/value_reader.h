#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "src/graph/reading.h"

namespace tt::graph {

/// The names that lines define.
struct Names {
  std::map<std::string, std::size_t, std::less<>> parameters;  // defined so far, by index
  std::map<std::string, std::size_t, std::less<>> values;      // defined so far, by index
  std::map<std::string, std::size_t, std::less<>> lines;       // all names, with their lines

  bool has(const std::string& name) const {
    return parameters.contains(name) || values.contains(name);
  }
};

/// Reads the expression at `root` and its leaves, and appends it to `values`. Calls of parts of the
/// model and their arguments are appended before it. False after a problem.
bool read_value(Reading& reading, const Names& names, expr::NodeId root, std::string name,
                std::vector<Value>& values);

enum class Found { kLeaf, kNothing, kProblem };

/// Tests whether the whole `node` is one leaf.
Found find_leaf(Reading& reading, const Names& names, expr::NodeId node, Leaf& leaf);

}  // namespace tt::graph
