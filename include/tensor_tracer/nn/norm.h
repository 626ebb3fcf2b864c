#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/nn/parameter.h"

namespace tt::nn {

enum class NormKind { kLayerNorm, kRmsNorm };

/// The kind that the option --normalization names.
NormKind norm_kind(const config::ModelConfig& config);

/// The rows that the tensor ranks normalize: the same rows on all ranks, or the heads of each rank.
enum class NormRows { kSame, kOwnHeads };

/// LayerNorm with weight and bias, or RMSNorm with weight, over the last dim. Replicated over the
/// tensor ranks.
class Norm : public AffineLayer {
 public:
  Norm(const BuildContext& context, const std::string& name, NormKind kind, std::int64_t size,
       double epsilon, NormRows rows = NormRows::kSame);
  /// [..., size] -> the same shape and dtype.
  at::Tensor forward(const at::Tensor& x, const ForwardContext& context) const;
  /// The same with the parameters as they are: programs that change them have no effect.
  at::Tensor apply(const at::Tensor& x) const;

 private:
  at::Tensor normalize(const at::Tensor& x, const at::Tensor& gain,
                       const std::optional<at::Tensor>& bias) const;

  NormKind kind_;
  double epsilon_;
};

}  // namespace tt::nn
