#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/nn/linear.h"

namespace tt::nn {

/// The feed-forward block. Its inner width is sharded over the tensor axis.
class Mlp {
 public:
  /// `name`: parameters are <name>.fc1.weight and so on.
  Mlp(const BuildContext& context, const config::ModelConfig& config, const std::string& name);
  /// Declares the places in the order of forward(). REQUIRES: the layer is open in `places`.
  void declare(points::PlaceTableBuilder& places);
  /// x [batch, sequence, hidden] -> the same shape, before the residual is added.
  at::Tensor forward(const at::Tensor& x, const ForwardContext& context) const;
  std::vector<Parameter> parameters() const;
  std::vector<LowRank> adapters() const;

 private:
  config::ModelConfig config_;
  ColumnParallelLinear fc1_;
  RowParallelLinear fc2_;
  int tensor_ranks_;
  std::vector<points::PlaceKey> places_;  // by the list in mlp.cpp
};

}  // namespace tt::nn
