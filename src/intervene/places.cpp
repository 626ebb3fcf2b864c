#include "src/intervene/places.h"

#include <algorithm>
#include <string>

#include "tensor_tracer/base/check.h"
#include "tensor_tracer/graph/places.h"

namespace tt::intervene {
namespace {

std::vector<std::int64_t> sizes_of(const trace::PointDescription& point, const Shape& shape) {
  if (point.holds_integers()) return {shape.batch, shape.sequence};
  std::vector<std::int64_t> sizes;
  for (const std::string& dim : point.dims) {
    if (dim == "batch") sizes.push_back(shape.batch);
    if (dim == "sequence" || dim == "keys") sizes.push_back(shape.sequence);
    if (dim == "heads") sizes.push_back(point.tensor.full_size());
    if (dim == "features") sizes.push_back(point.features);
  }
  return sizes;
}

void set_placement(PlaceRef& spot, const mesh::Placement& placement, int ranks) {
  spot.is_cut = placement.kind == mesh::Placement::Kind::kShard;
  if (ranks > 1) spot.placement = placement;
}

}  // namespace

PlaceRef find_place_ref(const graph::Place& place, int layer, const Context& context,
                        const Shape& shape) {
  const graph::PlaceKind& kind = *graph::find_place(place.point);
  PlaceRef spot;
  spot.layer = place.layer ? place.layer->at(layer) : 0;
  spot.gradient = place.gradient;
  spot.is_weight = kind.is_weight;
  spot.dtype = context.dtype;
  if (kind.has_heads) spot.head_size = context.head_size;
  if (kind.is_weight) {
    const auto weight =
        std::ranges::find(context.weights, place.point, &trace::WeightDescription::name);
    TT_CHECK(weight != context.weights.end(), "no weight " + place.point);
    spot.flag = weight->flag;
    spot.shape = weight->shape;
    set_placement(spot, weight->placement, context.tensor_ranks);
    return spot;
  }
  const trace::PointDescription& point =
      context.catalogue->points()[context.catalogue->find(place.point).value()];
  spot.flag = point.flag;
  spot.shape = sizes_of(point, shape);
  if (point.holds_integers()) {
    spot.dtype = at::kLong;
    return spot;
  }
  set_placement(spot, place.gradient ? point.gradient.value() : point.tensor, context.tensor_ranks);
  return spot;
}

bool PlaceRef::has_addends() const {
  return std::ranges::any_of(placement.segments, &mesh::Segment::partial);
}

std::size_t spot_key(trace::PointFlag flag, int layer, bool gradient, int num_layers) {
  const auto place =
      static_cast<std::size_t>(layer) * trace::kNumPointFlags + static_cast<std::size_t>(flag);
  return place + (gradient ? spot_keys(num_layers) / 2 : 0);
}

std::size_t spot_keys(int num_layers) {
  return 2 * (static_cast<std::size_t>(num_layers) + 1) * trace::kNumPointFlags;
}

}  // namespace tt::intervene
