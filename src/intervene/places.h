#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tensor_tracer/graph/program.h"
#include "tensor_tracer/intervene/context.h"
#include "tensor_tracer/mesh/placement.h"
#include "tensor_tracer/points/place_table.h"

namespace tt::intervene {

/// Rows and tokens of one forward.
struct Shape {
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  auto operator<=>(const Shape&) const = default;
};

/// A place of a program in one run: its row, its layer, and its placement on the ranks.
struct PlaceRef {
  points::PlaceKey place;
  std::string name;  // of the row
  bool gradient = false;
  bool is_weight = false;
  std::vector<std::int64_t> shape;  // logical
  int sequence_dim = 1;             // the dim of tokens; unused for a weight
  mesh::Placement placement;        // of the value, or of the gradient; Replicate on one rank
  bool may_be_sharded = false;      // if there is more than one rank
  at::ScalarType dtype = at::kFloat;
  std::int64_t head_size = 0;  // > 0: features are heads of this size

  bool is_sharded() const { return placement.is_sharded(); }
  /// True if several ranks hold partial sums of the same numbers.
  bool has_partial_sums() const;
};

/// `layer`: the layer that `layer` in the program's text means. REQUIRES: the place passed
/// graph::parse_program for context.model.
PlaceRef find_place_ref(const graph::Place& place, int layer, const Context& context,
                        const Shape& shape);

/// The positions at which some element of `mask` is true: bool [batch, sequence]. `mask` has the
/// shape of the place or of its shard.
at::Tensor positions_of(const at::Tensor& mask, const PlaceRef& place);

/// A unique number for each place and direction, below num_action_keys().
std::size_t action_key(const points::PlaceKey& place, bool gradient,
                       const points::PlaceTable& places);
std::size_t num_action_keys(const points::PlaceTable& places);

}  // namespace tt::intervene
