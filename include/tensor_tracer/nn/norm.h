#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor_tracer/nn/parameter.h"

namespace tt::nn {

enum class NormKind { kLayerNorm, kRmsNorm };

/// LayerNorm with weight and bias, or RMSNorm with weight, over the last dim; the same on every
/// tensor rank.
class Norm {
 public:
  Norm(const BuildContext& context, const std::string& name, NormKind kind, std::int64_t size,
       double epsilon);
  /// Declares the parameters as places below `path`.
  void declare(points::PlaceTableBuilder& places, const std::string& path);
  /// [..., size] -> the same shape and dtype.
  at::Tensor forward(const at::Tensor& x, const ForwardContext& context) const;
  std::vector<Parameter> parameters() const;

 private:
  NormKind kind_;
  double epsilon_;
  at::ScalarType dtype_;
  Parameter weight_;
  std::optional<Parameter> bias_;
  std::vector<points::PlaceKey> places_;  // by the list in norm.cpp
};

}  // namespace tt::nn
