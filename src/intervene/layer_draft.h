#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/intervene/specialization.h"

namespace tt::intervene {

/// A LayerSpecialization while it is compiled, and the facts that it is compiled from, which must
/// outlive it. Thread: one.
struct LayerDraft {
  const graph::Program& program;
  const Context& context;
  LayerSpecialization layer = {};

  PlaceRef ref_of(const graph::Place& place) const {
    return find_place_ref(place, layer.layer, context, layer.shape);
  }
  std::int64_t moment_of(const graph::Place& place, const PlaceRef& ref) const {
    return context.places().moment(place.row, ref.place.layer, ref.gradient);
  }
  std::size_t key_of(const PlaceRef& ref) const {
    return action_key(ref.place, ref.gradient, context.places());
  }
  base::Error error(expr::NodeId node, std::string what, std::string remedy) const;
  /// The selection of the subscript, as a tensor without data; lists are checked.
  base::Result<at::Tensor> select(const at::Tensor& x, const Indices& indices,
                                  expr::NodeId subscript) const;
};

/// A tensor without data.
at::Tensor meta_tensor(const std::vector<std::int64_t>& shape, at::ScalarType dtype);

}  // namespace tt::intervene
