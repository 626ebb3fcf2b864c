#include "src/intervene/places.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace tt::intervene {
namespace {

// The sizes of the row's tensor, with the batch rows and tokens of this forward.
std::vector<std::int64_t> sizes_of(const points::Place& row, const Shape& shape) {
  if (row.is_weight) return row.shape;
  if (row.holds_integers()) return {shape.batch, shape.sequence};
  std::vector<std::int64_t> sizes = row.shape;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (row.dims[i] == "batch") sizes[i] = shape.batch;
    if (row.dims[i] == "sequence" || row.dims[i] == "keys") sizes[i] = shape.sequence;
  }
  return sizes;
}

}  // namespace

PlaceRef find_place_ref(const graph::Place& place, int layer, const Context& context,
                        const Shape& shape) {
  const points::Place& row = context.places().rows()[place.row];
  PlaceRef ref;
  ref.place = context.places().key(place.row, place.layer ? place.layer->at(layer) : 0);
  ref.name = row.name;
  ref.gradient = place.gradient;
  ref.is_weight = row.is_weight;
  ref.shape = sizes_of(row, shape);
  ref.dtype = row.holds_integers() ? at::kLong : context.dtype;
  if (row.has_heads) ref.head_size = context.head_size;
  const auto sequence = std::ranges::find(row.dims, "sequence");
  if (sequence != row.dims.end()) ref.sequence_dim = static_cast<int>(sequence - row.dims.begin());
  const mesh::Placement& placement = place.gradient ? row.gradient.value() : row.placement;
  ref.may_be_sharded = placement.is_sharded();
  if (context.tensor_ranks > 1) ref.placement = placement;
  return ref;
}

bool PlaceRef::has_partial_sums() const {
  return std::ranges::any_of(placement.segments, &mesh::Segment::partial);
}

at::Tensor positions_of(const at::Tensor& mask, const PlaceRef& place) {
  return mask.movedim(place.sequence_dim, 1).flatten(2).any(-1);
}

std::size_t action_key(const points::PlaceKey& place, bool gradient,
                       const points::PlaceTable& places) {
  return place.index + (gradient ? places.num_keys() : 0);
}

std::size_t num_action_keys(const points::PlaceTable& places) { return 2 * places.num_keys(); }

}  // namespace tt::intervene
