#include "tensor_tracer/graph/places.h"

#include <algorithm>

#include "tensor_tracer/base/check.h"

namespace tt::graph {
namespace {

PlaceKind outside(std::string point, std::string path) {
  return {.point = std::move(point), .path = std::move(path), .in_layer = false};
}

PlaceKind inside(std::string point, std::string path) {
  return {.point = std::move(point), .path = std::move(path)};
}

PlaceKind with_heads(PlaceKind kind) {
  kind.has_heads = true;
  return kind;
}

PlaceKind read_only(PlaceKind kind) {
  kind.writable = kind.has_gradient = false;
  return kind;
}

PlaceKind weight(PlaceKind kind) {
  kind.is_weight = true;
  kind.has_gradient = false;
  return kind;
}

std::vector<PlaceKind> make_kinds() {
  return {
      read_only(outside("InputTokens", "tokens")),
      outside("Embedding", "embedding.output"),
      weight(inside("QkvWeight", "attention.qkv.weight")),
      inside("QKV", "attention.qkv"),
      with_heads(inside("Query", "attention.query")),
      with_heads(inside("Key", "attention.key")),
      with_heads(inside("Value", "attention.value")),
      read_only(inside("RawAttentionScore", "attention.scores")),
      with_heads(inside("ContextLayer", "attention.context")),
      weight(inside("ProjWeight", "attention.proj.weight")),
      inside("AttentionOutput", "attention.output"),
      inside("ResidualMid", "mid"),
      weight(inside("Fc1Weight", "mlp.fc1.weight")),
      inside("MLP1", "mlp.fc1"),
      inside("MLPActivation", "mlp.activation"),
      weight(inside("Fc2Weight", "mlp.fc2.weight")),
      inside("MLP2", "mlp.output"),
      inside("HiddenStates", "output"),
      outside("FinalNorm", "final_norm.output"),
      weight(outside("OutputWeight", "output_layer.weight")),
      outside("Logits", "logits"),
  };
}

}  // namespace

const std::vector<PlaceKind>& place_kinds() {
  static const std::vector<PlaceKind> kinds = make_kinds();
  return kinds;
}

const PlaceKind* find_place(std::string_view point_or_path) {
  const auto found = std::ranges::find_if(place_kinds(), [&](const PlaceKind& kind) {
    return kind.point == point_or_path || kind.path == point_or_path;
  });
  return found == place_kinds().end() ? nullptr : &*found;
}

std::int64_t moment_of(const PlaceKind& place, int layer, bool gradient, int num_layers) {
  const auto& kinds = place_kinds();
  const auto is_inside = [](const PlaceKind& kind) { return kind.in_layer; };
  const auto row = std::ranges::find(kinds, place.point, &PlaceKind::point) - kinds.begin();
  TT_CHECK(row < std::ssize(kinds), "no place " + place.point);
  const auto first = std::ranges::find_if(kinds, is_inside) - kinds.begin();
  const auto in_layer = std::ranges::count_if(kinds, is_inside);
  const std::int64_t layers_before = place.in_layer ? layer - 1 : row < first ? 0 : num_layers - 1;
  const std::int64_t moment = row + layers_before * in_layer;
  const std::int64_t end = std::ssize(kinds) + (num_layers - 1) * in_layer;
  return gradient ? 2 * end - moment : moment;
}

}  // namespace tt::graph
