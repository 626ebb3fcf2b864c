#include "tensor_tracer/nn/norm.h"

#include <ATen/ATen.h>

// Shapes: the last dim is normalised; all others are rows.

namespace tt::nn {

NormKind norm_kind(const config::ModelConfig& config) {
  return config.normalization == "RMSNorm" ? NormKind::kRmsNorm : NormKind::kLayerNorm;
}

Norm::Norm(const BuildContext& context, const std::string& name, NormKind kind, std::int64_t size,
           double epsilon, NormRows rows)
    : AffineLayer(context, name, {size}, mesh::Placement::replicate(), Init::kOnes, 0.0,
                  kind == NormKind::kLayerNorm ? std::optional(mesh::Placement::replicate())
                                               : std::nullopt),
      kind_(kind),
      epsilon_(epsilon) {
  if (rows == NormRows::kOwnHeads) mark_partial_gradients();
}

at::Tensor Norm::forward(const at::Tensor& x, const ForwardContext& context) const {
  // Keep the order of declare(): each of the two calls runs a place.
  const at::Tensor gain = weight(context);
  return normalize(x, gain, bias(context));
}

at::Tensor Norm::apply(const at::Tensor& x) const { return normalize(x, weight(), bias()); }

at::Tensor Norm::normalize(const at::Tensor& x, const at::Tensor& gain,
                           const std::optional<at::Tensor>& bias) const {
  if (kind_ == NormKind::kRmsNorm) return at::rms_norm(x, gain.sizes(), gain, epsilon_);
  return at::layer_norm(x, gain.sizes(), gain, bias, epsilon_);
}

}  // namespace tt::nn
