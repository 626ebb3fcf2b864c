#pragma once

#include <optional>

#include "src/graph/reading.h"

namespace tt::graph {

/// A place, and the node that is exactly this place.
struct FoundPlace {
  Place place;
  expr::NodeId end = expr::kNoNode;
};

/// The place at the start of `node`, a chain of names, dots and brackets. Nothing if the chain does
/// not begin with a place, or after a problem. Layer numbers are checked, `layer` is not.
std::optional<FoundPlace> find_place_in(Reading& reading, expr::NodeId node);

/// Reads the subscript of `layers[...]` or `vector("evil")[...]`: a number, `layer`, or `layer +
/// 1`. False after a problem; the problem's text uses the name `what`.
bool read_layer_ref(Reading& reading, expr::NodeId subscript, const std::string& what,
                    LayerRef& layer);

/// True for an integer, a slice of integers or a list of integers. A step that is not positive is a
/// problem.
bool is_plain_index(Reading& reading, expr::NodeId item);

}  // namespace tt::graph
