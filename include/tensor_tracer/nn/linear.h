#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/nn/low_rank.h"
#include "tensor_tracer/nn/parameter.h"

namespace tt::nn {

struct LinearOptions {
  std::string name;  // parameters are <name>.weight and <name>.bias
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
  bool bias = true;
  double init_std = 0.02;
};

/// The initial standard deviation of the two matrices of a layer that write to the residual stream.
/// It is smaller than that of other matrices (Radford et al. 2019).
double residual_init_std(const config::ModelConfig& config);

/// The tensor that the ranks sum: the gradient of x in the backward pass, or y in the forward pass.
enum class SumOver : std::int64_t { kInputGradient, kOutput };

/// y = x Wᵀ + b with W [out, in] sharded over the ranks.
class ParallelLinear : public AffineLayer {
 public:
  /// x [..., local in] -> [..., local out], both in the compute dtype.
  at::Tensor forward(const at::Tensor& x, const ForwardContext& context) const;
  /// Adds adapters (low_rank.h) for the targets that --lora-target-modules names.
  void add_adapters(const BuildContext& context, const config::ModelConfig& config,
                    const std::vector<AdapterTarget>& targets);
  const std::vector<LowRank>& adapters() const { return adapters_; }
  /// With those of the adapters.
  std::vector<Parameter> parameters() const;

 protected:
  ParallelLinear(const BuildContext& context, const LinearOptions& options,
                 const mesh::Placement& weight, const mesh::Placement& bias, SumOver sum);

 private:
  at::Tensor adapted(const at::Tensor& y, const at::Tensor& x) const;

  AdapterSite site_;
  comm::ProcessGroup group_;
  SumOver sum_;
  std::vector<LowRank> adapters_;
};

/// W is sharded along out: every rank multiplies the whole x and holds its shard of y. The gradient
/// of x is summed over the ranks. Source: Megatron-LM (arXiv 1909.08053), 3.
class ColumnParallelLinear : public ParallelLinear {
 public:
  /// `segments`: the sharding of the out dim (mesh/placement.h); their sizes sum to out_features.
  ColumnParallelLinear(const BuildContext& context, const LinearOptions& options,
                       const std::vector<mesh::Segment>& segments);
};

/// W is sharded along in: every rank multiplies its shard of x, and the ranks add their partial
/// sums of y. The bias is the same on all ranks and is added once.
class RowParallelLinear : public ParallelLinear {
 public:
  RowParallelLinear(const BuildContext& context, const LinearOptions& options);
};

/// x Wᵀ of which each rank has a shard of x and of W along their last dim. The ranks add their
/// parts of the product.
at::Tensor row_parallel_matmul(const at::Tensor& x, const at::Tensor& weight,
                               const comm::ProcessGroup& group);

/// x Wᵀ of which each rank has the whole x and a shard of W along its first dim. No sum over ranks
/// in the forward pass; the backward pass sums the gradient of x over the ranks.
at::Tensor column_parallel_matmul(const at::Tensor& x, const at::Tensor& weight,
                                  const comm::ProcessGroup& group);

}  // namespace tt::nn
