#include "tensor_tracer/model/head.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tensor_tracer/nn/embedding.h"
#include "tensor_tracer/nn/linear.h"

// Shapes: B batch, T sequence, H hidden, V local vocabulary.

namespace tt::model {
namespace {

enum : std::size_t { kFinalNorm, kOutputWeight, kLogits, kNumHeadPlaces };

points::Place scores(points::Place place, const nn::Parameter& weight) {
  place.bias = "none";
  place.is_vocabulary = true;
  place.numbers = "logit";
  const auto& segments = weight.placement.segments;
  return nn::sharded(std::move(place), segments, segments[0].chunks);
}

}  // namespace

Head::Head(const nn::BuildContext& context, const config::ModelConfig& config,
           nn::Parameter output_weight)
    : group_(context.tensor),
      dtype_(context.compute_dtype),
      hidden_size_(config.hidden_size),
      num_layers_(config.num_layers),
      loss_chunk_size_(nn::loss_chunk_size(context.loss_chunk_size, config.vocab_size)),
      final_norm_(context, "final_norm", nn::norm_kind(config), config.hidden_size,
                  config.norm_epsilon),
      output_weight_(std::move(output_weight)),
      places_(kNumHeadPlaces) {}

void Head::declare(points::PlaceTableBuilder& places) {
  final_norm_.declare(places, "final_norm");
  places_[kFinalNorm] = places.add(nn::replicated({.name = "FinalNorm",
                                                   .path = "final_norm.output",
                                                   .text = "input of the output layer",
                                                   .bias = "not applicable",
                                                   .hidden_state = static_cast<int>(num_layers_)},
                                                  hidden_size_));
  places_[kOutputWeight] =
      nn::declare(places, output_weight_, "output_layer.weight", "OutputWeight");
  places_[kLogits] = places.add(scores(
      {.name = "Logits", .path = "logits", .text = "scores of the next token, before the softmax"},
      output_weight_));
  places.add_alias(places_[kFinalNorm], "output_layer.input");
  places.add_alias(places_[kLogits], "output_layer.output");
}

points::PlaceKey Head::declare_lens(points::PlaceTableBuilder& places, const std::string& name,
                                    const std::string& path, const std::string& of) const {
  const auto vocabulary = static_cast<double>(output_weight_.full_shape[0]);
  points::Place place =
      scores({.name = name,
              .path = path,
              .text = "logit lens: the scores of the next token that final norm and output layer "
                      "give for " +
                      of,
              .formula = "output_layer(final_norm(" + of + "))",
              .flops_per_token = 2.0 * vocabulary * static_cast<double>(hidden_size_)},
             output_weight_);
  return places.add(nn::only_traced(std::move(place)));
}

nn::VocabularyShard Head::shard() const {
  return {group_, nn::first_local_token(output_weight_.full_shape[0], group_), loss_chunk_size_};
}

at::Tensor Head::logits(const at::Tensor& normed_BTH, const at::Tensor& weight_VH,
                        const nn::ForwardContext& context) const {
  return context.point(places_[kLogits], nn::output_logits(normed_BTH, weight_VH, shard()));
}

at::Tensor Head::norm(const at::Tensor& x_BTH, const nn::ForwardContext& context) const {
  return context.point(places_[kFinalNorm], final_norm_.forward(x_BTH, context));
}

// The final norm's output and the output weight, after changes by programs.
std::pair<at::Tensor, at::Tensor> Head::operands(const at::Tensor& x_BTH,
                                                 const nn::ForwardContext& context) const {
  at::Tensor normed_BTH = norm(x_BTH, context);
  return {std::move(normed_BTH), context.intervene(places_[kOutputWeight], output_weight())};
}

at::Tensor Head::forward(const at::Tensor& x_BTH, const nn::ForwardContext& context) const {
  const auto [normed_BTH, weight_VH] = operands(x_BTH, context);
  return logits(normed_BTH, weight_VH, context);
}

at::Tensor Head::loss(const at::Tensor& x_BTH, const at::Tensor& labels_BT,
                      const nn::ForwardContext& context, const nn::LossMask& mask) const {
  nn::LossMask mask_N = mask;
  if (mask.counted.defined()) mask_N.counted = mask.counted.flatten();
  const auto [normed_BTH, weight_VH] = operands(x_BTH, context);
  if (context.needs_graph(places_[kLogits], x_BTH.size(0))) {
    const at::Tensor logits_BTV = logits(normed_BTH, weight_VH, context);
    return nn::vocab_parallel_cross_entropy(logits_BTV.flatten(0, 1), labels_BT.flatten(), shard(),
                                            mask_N);
  }
  const auto loss_of = [&, &normed = normed_BTH,
                        &weight = weight_VH](const nn::LogitsReader& read) {
    return nn::linear_cross_entropy(normed.flatten(0, 1), weight, labels_BT.flatten(), shard(),
                                    context.loss_gradient, mask_N, read);
  };
  const std::int64_t rows = context.pass.rows_wanted(places_[kLogits], x_BTH.size(0));
  if (rows == 0) return loss_of({});
  const std::vector<std::int64_t> sizes = {rows, x_BTH.size(1), weight_VH.size(0)};
  const at::Tensor kept_BTV = at::empty(sizes, weight_VH.options());
  const at::Tensor loss = loss_of(keep_logits(kept_BTV, context));
  context.pass.capture_derived(places_[kLogits], sizes, dtype_, [&] { return kept_BTV; });
  return loss;
}

// Copies the tokens that entries need. No entry reads the other tokens, so their memory is never
// touched.
nn::LogitsReader Head::keep_logits(const at::Tensor& kept_BTV,
                                   const nn::ForwardContext& context) const {
  const std::int64_t rows = kept_BTV.size(0), tokens = kept_BTV.size(1);
  const trace::TokenWindow wanted = context.pass.wanted(places_[kLogits], rows, tokens);
  return [=, kept_NV = kept_BTV.flatten(0, 1)](std::int64_t first, const at::Tensor& logits_CV) {
    const std::int64_t end = first + logits_CV.size(0);
    for (std::int64_t row = first / tokens; row < rows && row * tokens < end; ++row) {
      const std::int64_t from = std::max(first, row * tokens + wanted.first_token);
      const std::int64_t to = std::min(end, row * tokens + wanted.end_token);
      if (from >= to) continue;
      kept_NV.narrow(0, from, to - from).copy_(logits_CV.narrow(0, from - first, to - from));
    }
  };
}

bool Head::is_watched(const nn::ForwardContext& context) const {
  const auto* const programs = context.interventions;
  return programs != nullptr &&
         (programs->acts_at(places_[kFinalNorm]) || programs->acts_at(places_[kLogits]));
}

at::Tensor Head::output_layer(const at::Tensor& x_BTH) const {
  return nn::column_parallel_matmul(x_BTH, output_weight(), group_);
}

void Head::show_lens(const points::PlaceKey& lens, const at::Tensor& x_BTH,
                     const nn::ForwardContext& context) const {
  const trace::TokenWindow wanted = context.pass.wanted(lens, x_BTH.size(0), x_BTH.size(1));
  if (wanted.rows == 0) return;
  const std::vector<std::int64_t> sizes = {wanted.rows, x_BTH.size(1),
                                           output_weight_.local.size(0)};
  context.pass.capture_derived(lens, sizes, dtype_, [&] {
    const at::Tensor part_BTH =
        x_BTH.narrow(0, 0, wanted.rows).narrow(1, wanted.first_token, wanted.tokens());
    // No entry reads the other tokens, so their memory is never touched.
    at::Tensor scores_BTV = at::empty(sizes, x_BTH.options().requires_grad(false));
    scores_BTV.narrow(1, wanted.first_token, wanted.tokens())
        .copy_(output_layer(final_norm(part_BTH)));
    return scores_BTV;
  });
}

}  // namespace tt::model
