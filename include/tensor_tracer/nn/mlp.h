#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tensor_tracer/nn/linear.h"

namespace tt::nn {

struct MlpOptions {
  std::string name;
  int layer = 1;  // global, from 1
  std::int64_t hidden_size = 0;
  std::int64_t ffn_hidden_size = 0;
  bool swiglu = false;  // silu(gate) * up; else GELU, tanh approximation as in GPT-2
  bool bias = true;
  double init_std = 0.02;
  double output_init_std = 0.02;
};

/// The feed-forward block, its inner width sharded over the tensor axis.
class Mlp {
 public:
  Mlp(const BuildContext& context, const MlpOptions& options);
  /// Declares the places in the order of forward(). REQUIRES: the layer is open in `places`.
  void declare(points::PlaceTableBuilder& places);
  /// x [batch, sequence, hidden] -> the same shape, before the residual is added.
  at::Tensor forward(const at::Tensor& x, const ForwardContext& context) const;
  std::vector<Parameter> parameters() const;

 private:
  MlpOptions options_;
  ColumnParallelLinear fc1_;
  RowParallelLinear fc2_;
  int tensor_ranks_;
  std::vector<points::PlaceKey> places_;  // by the list in mlp.cpp
};

/// The inner columns, gate before up with SwiGLU, and how they are sharded over `ranks` ranks.
std::vector<mesh::Segment> fc1_segments(std::int64_t ffn_hidden_size, bool swiglu, int ranks);

}  // namespace tt::nn
