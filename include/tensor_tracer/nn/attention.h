#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/nn/linear.h"
#include "tensor_tracer/nn/norm.h"

namespace tt::nn {

/// Causal self-attention with heads sharded over the tensor axis. Tokens attend only within their
/// document. With fewer query groups than ranks, each rank that needs the keys and values of a
/// group holds a copy of them.
class Attention {
 public:
  /// `name`: parameters are <name>.qkv.weight and so on.
  Attention(const BuildContext& context, const config::ModelConfig& config,
            const std::string& name);
  /// Declares the places in the order of forward(). REQUIRES: the layer is open in `places`.
  void declare(points::PlaceTableBuilder& places);
  /// x [batch, sequence, hidden] -> the same shape, before the residual is added. With a cache, a
  /// step of generation attends to the tokens that the cache holds. It has no attention logits and
  /// probabilities for programs and the tracer.
  at::Tensor forward(const at::Tensor& x, const ForwardContext& context) const;
  std::vector<Parameter> parameters() const;
  std::vector<LowRank> adapters() const;

 private:
  void declare_heads(points::PlaceTableBuilder& places);
  points::Place by_head(points::Place place) const;
  using MakeGradient = std::function<at::Tensor(const at::Tensor& gradient, at::ScalarType dtype)>;
  void show(const at::Tensor& q_BNTD, const at::Tensor& k_BNTD, const at::Tensor& written_BNTT,
            const ForwardContext& context) const;
  void show_gradient(std::size_t place, const at::Tensor& from_BNTX, const ForwardContext& context,
                     const MakeGradient& make) const;
  void declare_health(points::PlaceTableBuilder& places);
  void show_health(const at::Tensor& q_BNTD, const at::Tensor& k_BNTD,
                   const at::Tensor& written_BNTT, const ForwardContext& context) const;
  at::Tensor health(const at::Tensor& q_BNTD, const at::Tensor& k_BNTD,
                    const at::Tensor& written_BNTT, const trace::TokenWindow& wanted,
                    const RowDocuments& documents) const;
  at::Tensor logits(const at::Tensor& q_BNTD, const at::Tensor& k_BNTD,
                    const RowDocuments& documents) const;
  at::Tensor probabilities(const at::Tensor& logits_BNTT, const RowDocuments& documents) const;
  at::Tensor normalize(const std::optional<Norm>& norm, const at::Tensor& x_BTF, std::size_t place,
                       const ForwardContext& context) const;
  at::Tensor rotate(const at::Tensor& x_BTF, std::size_t place,
                    const ForwardContext& context) const;
  at::Tensor attend(const at::Tensor& q_BNTD, const at::Tensor& k_BNTD, const at::Tensor& v_BNTD,
                    const ForwardContext& context) const;
  at::Tensor attend_fused(const at::Tensor& q_BNTD, const at::Tensor& k_BNTD,
                          const at::Tensor& v_BNTD, const ForwardContext& context) const;
  at::Tensor dropout(const at::Tensor& like_BNTT, const ForwardContext& context) const;
  at::Tensor for_each_head(const at::Tensor& x_BGTD) const;

  config::ModelConfig config_;
  std::string name_;
  int tensor_rank_ = 0;
  int tensor_ranks_ = 1;
  std::int64_t local_heads_ = 0;
  std::int64_t local_groups_ = 0;
  ColumnParallelLinear qkv_;
  RowParallelLinear proj_;
  std::optional<Norm> query_norm_, key_norm_;
  std::vector<points::PlaceKey> places_;  // by the list in attention.cpp
  std::string derived_dtype_;             // dtype of values that are computed only for capture
  at::Tensor cos_TD_;                     // undefined without rotary embedding
  at::Tensor sin_TD_;
};

/// Queries, keys and values of all heads, and how they are sharded over `ranks` ranks.
std::vector<mesh::Segment> qkv_segments(const config::ModelConfig& config, int ranks);

}  // namespace tt::nn
