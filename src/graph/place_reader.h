#pragma once

#include <optional>

#include "src/graph/reading.h"

namespace tt::graph {

/// A place, and the node that is all of it.
struct FoundPlace {
  Place place;
  expr::NodeId end = expr::kNoNode;
};

/// The place with which the chain of names, dots and brackets `node` begins; nothing if it begins
/// with something else, or after a problem. Numbers of layers are checked, `layer` is not.
std::optional<FoundPlace> find_place_in(Reading& reading, expr::NodeId node);

/// What stands in `layers[...]` or `vector("evil")[...]`: a number, `layer`, `layer + 1`; false
/// after a problem, which calls it `what`.
bool read_layer_ref(Reading& reading, expr::NodeId subscript, const std::string& what,
                    LayerRef& layer);

/// True for an integer, a slice of integers or a list of integers; a step that is not positive is a
/// problem.
bool is_plain_index(Reading& reading, expr::NodeId item);

}  // namespace tt::graph
