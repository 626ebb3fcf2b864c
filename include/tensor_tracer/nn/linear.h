#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor_tracer/nn/parameter.h"

namespace tt::nn {

struct LinearOptions {
  std::string name;  // parameters are <name>.weight and <name>.bias
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
  bool bias = true;
  double init_std = 0.02;
};

/// y = x Wᵀ + b with W [out, in] sharded along out: every rank multiplies the whole x and holds its
/// part of y. The gradient of x is summed over the ranks. Source: Megatron-LM (arXiv
/// 1909.08053), 3.
class ColumnParallelLinear {
 public:
  /// `segments`: how the out dim is sharded (mesh/placement.h); their sizes sum to out_features.
  ColumnParallelLinear(const BuildContext& context, const LinearOptions& options,
                       const std::vector<mesh::Segment>& segments);
  /// Declares weight and bias as places below `path`; `weight_name` is the weight's.
  void declare(points::PlaceTableBuilder& places, const std::string& path,
               const std::string& weight_name);
  /// x [..., in] -> [..., local out], both in the compute dtype.
  at::Tensor forward(const at::Tensor& x, const ForwardContext& context) const;
  std::vector<Parameter> parameters() const;

 private:
  comm::ProcessGroup group_;
  at::ScalarType dtype_;
  Parameter weight_;
  std::optional<Parameter> bias_;
  std::vector<points::PlaceKey> places_;  // by the list in linear.cpp
};

/// y = x Wᵀ + b with W [out, in] sharded along in: every rank multiplies its part of x and the
/// parts of y are summed over the ranks, the bias, the same on all, among them once.
class RowParallelLinear {
 public:
  RowParallelLinear(const BuildContext& context, const LinearOptions& options);
  /// As of ColumnParallelLinear.
  void declare(points::PlaceTableBuilder& places, const std::string& path,
               const std::string& weight_name);
  /// x [..., local in] -> [..., out], both in the compute dtype.
  at::Tensor forward(const at::Tensor& x, const ForwardContext& context) const;
  std::vector<Parameter> parameters() const;

 private:
  comm::ProcessGroup group_;
  at::ScalarType dtype_;
  Parameter weight_;
  std::optional<Parameter> bias_;
  std::vector<points::PlaceKey> places_;  // by the list in linear.cpp
};

/// x Wᵀ without a sum over ranks in the forward pass, with one in the backward pass for x: the
/// output layer, whose weight may be the embedding's.
at::Tensor column_parallel_matmul(const at::Tensor& x, const at::Tensor& weight,
                                  const comm::ProcessGroup& group);

}  // namespace tt::nn
