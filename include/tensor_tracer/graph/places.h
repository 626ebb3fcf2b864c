#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tt::graph {

/// One place that programs may name.
struct PlaceKind {
  std::string point;     // as in the catalogue of trace points; weights have names of their own
  std::string path;      // behind `layers[n].`, or alone: "mlp.output", "embedding.output"
  bool in_layer = true;  // of every layer
  bool writable = true;
  bool has_gradient = true;
  bool is_weight = false;
  bool has_heads = false;  // .heads[k] is understood
};

/// All of them in the order in which the forward pass meets them; those of a layer are met once for
/// every layer. Thread: any.
const std::vector<PlaceKind>& place_kinds();

/// By point's name or by path; null: there is none.
const PlaceKind* find_place(std::string_view point_or_path);

/// When the forward pass meets the place, or with `gradient` the backward pass: the larger the
/// later. `layer` is ignored outside the layers. Layer n's input is layer n - 1's output.
std::int64_t moment_of(const PlaceKind& place, int layer, bool gradient, int num_layers);

}  // namespace tt::graph
