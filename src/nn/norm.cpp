#include "tensor_tracer/nn/norm.h"

#include <ATen/ATen.h>

// Shapes: the last dim is normalised; all others are rows.

namespace tt::nn {
namespace {

enum : std::size_t { kNormWeight, kNormBias, kNumNormPlaces };

}  // namespace

Norm::Norm(const BuildContext& context, const std::string& name, NormKind kind, std::int64_t size,
           double epsilon)
    : kind_(kind),
      epsilon_(epsilon),
      dtype_(context.compute_dtype),
      weight_(make_parameter(context, name + ".weight", {size}, mesh::Placement::replicate(),
                             Init::kOnes)),
      places_(kNumNormPlaces) {
  if (kind == NormKind::kLayerNorm) {
    bias_ =
        make_parameter(context, name + ".bias", {size}, mesh::Placement::replicate(), Init::kZeros);
  }
}

void Norm::declare(points::PlaceTableBuilder& places, const std::string& path) {
  places_[kNormWeight] = nn::declare(places, weight_, path + ".weight");
  if (bias_) places_[kNormBias] = nn::declare(places, *bias_, path + ".bias");
}

at::Tensor Norm::forward(const at::Tensor& x, const ForwardContext& context) const {
  const at::Tensor weight = context.intervene(places_[kNormWeight], in_dtype(weight_, dtype_));
  if (kind_ == NormKind::kRmsNorm) return at::rms_norm(x, weight.sizes(), weight, epsilon_);
  const at::Tensor bias = context.intervene(places_[kNormBias], in_dtype(*bias_, dtype_));
  return at::layer_norm(x, weight.sizes(), weight, bias, epsilon_);
}

std::vector<Parameter> Norm::parameters() const {
  std::vector<Parameter> all = {weight_};
  if (bias_) all.push_back(*bias_);
  return all;
}

}  // namespace tt::nn
