#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "tensor_tracer/nn/parameter.h"

namespace tt::nn {

enum class NormKind { kLayerNorm, kRmsNorm };

/// LayerNorm with weight and bias, or RMSNorm with weight, over the last dim. Replicated over the
/// tensor ranks.
class Norm : public AffineLayer {
 public:
  Norm(const BuildContext& context, const std::string& name, NormKind kind, std::int64_t size,
       double epsilon);
  /// [..., size] -> the same shape and dtype.
  at::Tensor forward(const at::Tensor& x, const ForwardContext& context) const;

 private:
  NormKind kind_;
  double epsilon_;
};

}  // namespace tt::nn
