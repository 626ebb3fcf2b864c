#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tensor_tracer/points/place_table.h"

namespace tt::attach {

/// How a module's tensor differs from the row's dims.
enum class View : std::uint8_t {
  kSame,
  kSequenceFirst,  // [sequence, batch, …], as in Megatron-LM
  kFlat            // [batch × sequence, features]
};

/// One tensor of one module: its place in the table, and its form.
struct Site {
  points::PlaceKey place;
  View view = View::kSame;
  int stage = 0;  // the virtual pipeline stage of the module; points::kEveryStage for tokens
};

/// The places of somebody else's model, which the Python side found in a forward pass.
struct Places {
  std::shared_ptr<const points::PlaceTable> table;
  std::vector<Site> sites;                 // in the order of the sites of the description
  std::optional<points::PlaceKey> tokens;  // InputTokens
};

/// Reads the description that python/tensor_tracer/attaching/table.py writes. REQUIRES: it comes
/// from there.
Places read_places(const nlohmann::json& description);

/// The tensor with the dims of its row: a view of `tensor`.
at::Tensor as_row(const at::Tensor& tensor, View view, std::int64_t batch);
/// The inverse: a tensor with the dims of its row in the form of `like`.
at::Tensor as_module(const at::Tensor& row, View view, const at::Tensor& like);

}  // namespace tt::attach
