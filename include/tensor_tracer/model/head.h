#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/nn/context.h"
#include "tensor_tracer/nn/cross_entropy.h"
#include "tensor_tracer/nn/norm.h"

namespace tt::model {

/// The part of a GPT after its layers: final norm and output layer. Thread: the thread that runs
/// the step.
class Head {
 public:
  /// `output_weight`: [vocabulary, hidden], sharded along the vocabulary; it may be the
  /// embedding's.
  Head(const nn::BuildContext& context, const config::ModelConfig& config,
       nn::Parameter output_weight);

  /// Declares the places of forward().
  void declare(points::PlaceTableBuilder& places);
  /// Declares a logit lens: the scores that the head gives for the residual stream at another place
  /// (nostalgebraist 2020, "interpreting GPT: the logit lens"). `of`: the path of that place.
  points::PlaceKey declare_lens(points::PlaceTableBuilder& places, const std::string& name,
                                const std::string& path, const std::string& of) const;

  /// [batch, sequence, hidden] -> the input of the output layer, of the same shape.
  at::Tensor norm(const at::Tensor& x, const nn::ForwardContext& context) const;
  /// [batch, sequence, hidden] -> scores of the next token, [batch, sequence, local vocabulary].
  at::Tensor forward(const at::Tensor& x, const nn::ForwardContext& context) const;
  /// True if a program acts on a place of forward() that has a value for each token.
  bool is_watched(const nn::ForwardContext& context) const;
  /// [batch, sequence, hidden] -> the mean cross entropy of the labels, int64 [batch, sequence].
  /// `mask`: of the labels, [batch, sequence]. Unless a program acts at the logits or an entry
  /// needs their gradient, the logits are never whole in memory: entries get copies of their rows.
  at::Tensor loss(const at::Tensor& x, const at::Tensor& labels, const nn::ForwardContext& context,
                  const nn::LossMask& mask) const;
  /// Captures the lens of `x` if an entry of the plan needs it. Programs that change the weights of
  /// the head have no effect on it.
  void show_lens(const points::PlaceKey& lens, const at::Tensor& x,
                 const nn::ForwardContext& context) const;

  /// final_norm(x) and output_layer(x) with the weights as they are, without trace points.
  at::Tensor final_norm(const at::Tensor& x) const { return final_norm_.apply(x); }
  at::Tensor output_layer(const at::Tensor& x) const;

  std::vector<nn::Parameter> norm_parameters() const { return final_norm_.parameters(); }

 private:
  at::Tensor output_weight() const { return output_weight_.as(dtype_); }
  nn::VocabularyShard shard() const;
  std::pair<at::Tensor, at::Tensor> operands(const at::Tensor& x,
                                             const nn::ForwardContext& context) const;
  at::Tensor logits(const at::Tensor& normed, const at::Tensor& weight,
                    const nn::ForwardContext& context) const;
  nn::LogitsReader keep_logits(const at::Tensor& kept, const nn::ForwardContext& context) const;

  comm::ProcessGroup group_;
  at::ScalarType dtype_;
  std::int64_t hidden_size_;
  std::int64_t num_layers_;
  std::int64_t loss_chunk_size_;
  nn::Norm final_norm_;
  nn::Parameter output_weight_;
  std::vector<points::PlaceKey> places_;  // by the list in head.cpp
};

}  // namespace tt::model
