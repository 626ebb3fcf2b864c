#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tensor_tracer/graph/program.h"
#include "tensor_tracer/intervene/context.h"
#include "tensor_tracer/mesh/placement.h"

namespace tt::intervene {

/// Rows and tokens of one forward.
struct Shape {
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  auto operator<=>(const Shape&) const = default;
};

/// A place of a program in one run: what it is called by the model and how its tensor lies.
struct PlaceRef {
  trace::PointFlag flag = trace::PointFlag::kHiddenStates;
  int layer = 0;  // 0: outside the layers
  bool gradient = false;
  bool is_weight = false;
  std::vector<std::int64_t> shape;  // logical
  mesh::Placement placement;        // of the value, or of the gradient; replicated on one rank
  bool is_cut = false;              // on more ranks than one it would not be whole
  at::ScalarType dtype = at::kFloat;
  std::int64_t head_size = 0;  // > 0: features are heads of this size

  bool is_sharded() const { return placement.kind == mesh::Placement::Kind::kShard; }
  /// Several ranks hold addends of one number.
  bool has_addends() const;
};

/// `layer` is what `layers[layer]` stands for. REQUIRES: the place passed graph::parse_program for
/// context.model.
PlaceRef find_place_ref(const graph::Place& place, int layer, const Context& context,
                        const Shape& shape);

/// One number for (flag, layer, gradient), below spot_keys().
std::size_t spot_key(trace::PointFlag flag, int layer, bool gradient, int num_layers);
std::size_t spot_keys(int num_layers);

}  // namespace tt::intervene
