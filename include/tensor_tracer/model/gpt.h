#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/model/head.h"
#include "tensor_tracer/nn/attention.h"
#include "tensor_tracer/nn/context.h"
#include "tensor_tracer/nn/cross_entropy.h"
#include "tensor_tracer/nn/embedding.h"
#include "tensor_tracer/nn/mlp.h"
#include "tensor_tracer/nn/norm.h"

namespace tt::model {

/// The columns of the place "Updates", which has one row for each parameter. "weight": the weights
/// before the step. "gradient": the gradients before clipping. "update": the weights after the step
/// minus the weights before it. A norm is Euclidean; RMS is the root of the mean square. The
/// moments are Adam's running means of the gradient and of its square, after the step.
inline constexpr std::array<std::string_view, 11> kUpdateColumns = {"count",
                                                                    "weight_norm",
                                                                    "weight_rms",
                                                                    "gradient_norm",
                                                                    "gradient_rms",
                                                                    "update_norm",
                                                                    "update_rms",
                                                                    "update_ratio",
                                                                    "first_moment_norm",
                                                                    "first_moment_rms",
                                                                    "second_moment_mean"};

/// One block: x + attention(norm(x)), then x + mlp(norm(x)).
class TransformerLayer {
 public:
  /// `layer` counts from 1.
  TransformerLayer(const nn::BuildContext& context, const config::ModelConfig& config, int layer);
  /// Declares the layer's places in the order of forward(). `head` makes the logit lenses.
  void declare(points::PlaceTableBuilder& places, const Head& head);
  /// [batch, sequence, hidden] -> the same shape.
  at::Tensor forward(const at::Tensor& x, const Head& head,
                     const nn::ForwardContext& context) const;
  std::vector<nn::Parameter> parameters() const;
  std::vector<nn::LowRank> adapters() const;
  /// The place of the result of forward(). A skipped layer also reaches this place.
  const points::PlaceKey& output() const;
  const points::PlaceKey& output_lens() const;

 private:
  void declare_contribution(points::PlaceTableBuilder& places, std::size_t norm,
                            const std::string& block);
  void show_contribution(std::size_t norm, const at::Tensor& added, const at::Tensor& stream,
                         const nn::ForwardContext& context) const;
  at::Tensor drop(const at::Tensor& x, const char* site, const nn::ForwardContext& context) const;

  int layer_;
  double dropout_;
  std::int64_t hidden_size_;
  std::string derived_dtype_;  // of norms that are computed only for capture
  nn::Norm input_norm_;
  nn::Attention attention_;
  nn::Norm mlp_norm_;
  nn::Mlp mlp_;
  std::vector<points::PlaceKey> places_;  // by the list in gpt.cpp
};

/// A decoder-only transformer like GPT-2 or Llama. Each layer class defines its sharding over the
/// tensor axis. Thread: the thread that runs the step.
class Gpt {
 public:
  /// `micro_batch`: rows of the forward pass that the place table describes.
  Gpt(const nn::BuildContext& context, const config::ModelConfig& config,
      std::int64_t micro_batch = 1);

  /// The places of the model, the same on every rank.
  const std::shared_ptr<const points::PlaceTable>& places() const { return place_table_; }

  /// Mean cross entropy in nats of labels given tokens, both int64 [batch, sequence]; a scalar, the
  /// same on every tensor rank. `mask`: of the labels, [batch, sequence].
  at::Tensor loss(const at::Tensor& tokens, const at::Tensor& labels,
                  const nn::ForwardContext& context, const nn::LossMask& mask = {}) const;

  /// Scores of the next token, [batch, sequence, local vocabulary].
  at::Tensor logits(const at::Tensor& tokens, const nn::ForwardContext& context) const;

  /// Scores of the token after token `last` (int64 [batch]) of each row, [batch, local vocabulary].
  at::Tensor next_logits(const at::Tensor& tokens, const at::Tensor& last,
                         const nn::ForwardContext& context) const;

  /// The output of the final norm, [batch, sequence, hidden], without the output layer.
  at::Tensor final_states(const at::Tensor& tokens, const nn::ForwardContext& context) const;

  const Head& head() const { return head_; }

  /// Every parameter once, in the order of the forward pass.
  std::vector<nn::Parameter> parameters() const;
  /// The adapters of all layers; their parameters are among parameters().
  std::vector<nn::LowRank> adapters() const;

 private:
  void declare(points::PlaceTableBuilder& places);
  void declare_updates(points::PlaceTableBuilder& places) const;
  at::Tensor hidden_states(const at::Tensor& tokens, const nn::ForwardContext& context) const;

  config::ModelConfig config_;
  at::ScalarType dtype_;
  nn::VocabParallelEmbedding word_embeddings_;
  std::optional<nn::Parameter> position_embeddings_;
  std::vector<TransformerLayer> layers_;
  std::optional<nn::Parameter> output_layer_;  // nullopt: tied to the embedding
  Head head_;
  std::vector<points::PlaceKey> places_;  // by the list in gpt.cpp
  std::shared_ptr<const points::PlaceTable> place_table_;
};

/// The model of `tensor_ranks` ranks without numbers: only its places and its parameters' shapes.
/// `activations`: PyTorch's name of the dtype.
Gpt describe_model(const config::ModelConfig& config, int tensor_ranks,
                   std::int64_t micro_batch = 1, const std::string& activations = "float32");

/// Error: a pattern of --freeze matches no parameter, or no parameter is trained.
base::Status check_frozen(const config::ModelConfig& config);

/// Count of numbers in all parameters of the full model.
std::int64_t num_parameters(const config::ModelConfig& config);

}  // namespace tt::model
