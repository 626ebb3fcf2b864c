#include "tensor_tracer/trace/catalogue.h"

#include <algorithm>
#include <utility>

#include "tensor_tracer/base/check.h"
#include "tensor_tracer/graph/places.h"

namespace tt::trace {

namespace {

// Replicas see other rows.
std::string placement_on_data(const PointDescription& point) {
  const auto batch = std::ranges::find(point.dims, "batch") - point.dims.begin();
  return "shard(" + std::to_string(batch) + ")";
}

}  // namespace

std::string PointDescription::path() const {
  const graph::PlaceKind* place = graph::find_place(name);
  TT_CHECK(place != nullptr, name);
  return place->in_layer ? "layers[n]." + place->path : place->path;
}

Catalogue::Catalogue(std::vector<PointDescription> points) : points_(std::move(points)) {}

std::optional<std::size_t> Catalogue::find(std::string_view name) const {
  const auto found = std::ranges::find(points_, name, &PointDescription::name);
  if (found == points_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - points_.begin());
}

std::size_t Catalogue::index_of(PointFlag flag) const {
  const auto found = std::ranges::find(points_, flag, &PointDescription::flag);
  TT_CHECK(found != points_.end(), "flag " + std::to_string(static_cast<int>(flag)));
  return static_cast<std::size_t>(found - points_.begin());
}

const PointDescription& Catalogue::at(PointFlag flag) const { return points_[index_of(flag)]; }

nlohmann::json Catalogue::to_json() const {
  nlohmann::json list = nlohmann::json::array();
  for (const PointDescription& point : points_) {
    nlohmann::json item = {{"name", point.name},
                           {"path", point.path()},
                           {"flag", static_cast<int>(point.flag)},
                           {"first_layer", point.first_layer},
                           {"last_layer", point.last_layer},
                           {"dims", point.dims},
                           {"shape", point.shape},
                           {"dtype", point.dtype},
                           {"features", point.features},
                           {"placement",
                            {{"tensor", to_string(point.tensor)},
                             {"pipeline", "replicate"},
                             {"data", placement_on_data(point)}}},
                           {"bias", point.bias},
                           {"text", point.text}};
    if (point.gradient) item["gradient_placement"] = {{"tensor", to_string(*point.gradient)}};
    list.push_back(std::move(item));
  }
  return list;
}

}  // namespace tt::trace
