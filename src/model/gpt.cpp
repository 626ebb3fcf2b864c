#include "tensor_tracer/model/gpt.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <string>
#include <utility>

#include "tensor_tracer/base/hash.h"
#include "tensor_tracer/dtypes/names.h"
#include "tensor_tracer/nn/random.h"

// Shapes: B batch, T sequence, N tokens (B × T), H hidden, V local vocabulary.

namespace tt::model {
namespace {

enum : std::size_t {
  kAttentionInput,
  kAttentionNorm,  // of the contribution; its ratio is the next place
  kAttentionRatio,
  kMid,
  kMidLens,
  kMlpInput,
  kMlpNorm,
  kMlpRatio,
  kLayerOutput,
  kOutputLens,
  kNumLayerPlaces
};
enum : std::size_t {
  kTokens,
  kWordEmbedding,
  kPositionEmbedding,
  kEmbedding,
  kEmbeddingLens,
  kNumPlaces
};

std::string layer_name(int layer) { return "layers." + std::to_string(layer); }

template <typename Part>
void append(std::vector<nn::Parameter>& all, const Part& part) {
  for (nn::Parameter& parameter : part.parameters()) all.push_back(std::move(parameter));
}

// The output weight that is not the embedding's; nullopt: both are one.
std::optional<nn::Parameter> make_output_layer(const nn::BuildContext& context,
                                               const config::ModelConfig& config) {
  if (!config.untie_embeddings_and_output_weights) return std::nullopt;
  return nn::make_parameter(
      context, "output_layer.weight", {config.vocab_size, config.hidden_size},
      mesh::Placement::shard(0, {{config.vocab_size, context.tensor_ranks()}}), nn::Init::kNormal,
      config.init_method_std);
}

// Token ids and their positions, int64 [2, B, T].
at::Tensor ids_and_positions(const at::Tensor& tokens_BT, const at::Tensor& positions_BT) {
  if (positions_BT.defined()) return at::stack({tokens_BT, positions_BT});
  return at::stack(
      {tokens_BT,
       at::arange(tokens_BT.size(1), tokens_BT.options().dtype(at::kLong)).expand_as(tokens_BT)});
}

}  // namespace

TransformerLayer::TransformerLayer(const nn::BuildContext& context,
                                   const config::ModelConfig& config, int layer)
    : layer_(layer),
      dropout_(config.hidden_dropout),
      hidden_size_(config.hidden_size),
      derived_dtype_(dtypes::name_of(at::toOpMathType(context.compute_dtype))),
      input_norm_(context, layer_name(layer) + ".input_norm", nn::norm_kind(config),
                  config.hidden_size, config.norm_epsilon),
      attention_(context, config, layer_name(layer) + ".attention"),
      mlp_norm_(context, layer_name(layer) + ".mlp_norm", nn::norm_kind(config), config.hidden_size,
                config.norm_epsilon),
      mlp_(context, config, layer_name(layer) + ".mlp"),
      places_(kNumLayerPlaces) {}

const points::PlaceKey& TransformerLayer::output() const { return places_[kLayerOutput]; }
const points::PlaceKey& TransformerLayer::output_lens() const { return places_[kOutputLens]; }

// Declares the norm of what a block adds to the residual stream, and its ratio to the stream.
void TransformerLayer::declare_contribution(points::PlaceTableBuilder& places, std::size_t norm,
                                            const std::string& block) {
  const std::string path = block + ".contribution";
  const auto add = [&](const std::string& name, const std::string& text,
                       const std::string& formula) {
    points::Place place = nn::replicated({.path = name, .text = text, .formula = formula}, 1);
    place.dtype = derived_dtype_;
    place.flops_per_token = 4.0 * static_cast<double>(hidden_size_);
    return places.add(nn::only_traced(std::move(place)));
  };
  const std::string added = "layers[n]." + block + ".output";
  const std::string stream = block == "mlp" ? "layers[n].mid" : "the input of layers[n]";
  places_[norm] =
      add(path, "Euclidean norm of what the block adds to the residual stream, by token",
          added + ".norm(dim=-1), after dropout");
  places_[norm + 1] = add(path + "_ratio", "the norm that the block adds, divided by the stream's",
                          path + " divided by the norm of " + stream);
}

void TransformerLayer::show_contribution(std::size_t norm, const at::Tensor& added_BTH,
                                         const at::Tensor& stream_BTH,
                                         const nn::ForwardContext& context) const {
  const std::int64_t batch = added_BTH.size(0), length = added_BTH.size(1);
  const auto dtype = at::toOpMathType(added_BTH.scalar_type());
  for (const std::size_t place : {norm, norm + 1}) {
    const std::int64_t rows = context.pass.wanted(places_[place], batch, length).rows;
    if (rows == 0) continue;
    const auto norm_of = [&](const at::Tensor& x_BTH) {
      return at::linalg_vector_norm(x_BTH.narrow(0, 0, rows), 2, -1, /*keepdim=*/true, dtype);
    };
    context.pass.capture_derived(places_[place], {rows, length, 1}, dtype, [&] {
      const at::Tensor size = norm_of(added_BTH);
      return place == norm ? size : size / norm_of(stream_BTH);
    });
  }
}

void TransformerLayer::declare(points::PlaceTableBuilder& places, const Head& head) {
  places.begin_layer(layer_);
  const auto add_norm = [&](const char* path, const char* text) {
    return places.add(
        nn::replicated({.path = path, .text = text, .bias = "not applicable"}, hidden_size_));
  };
  input_norm_.declare(places, "input_norm");
  places_[kAttentionInput] = add_norm("attention.input", "output of the norm before attention");
  places.add_alias(places_[kAttentionInput], "input_norm.output");
  places.add_alias(places_[kAttentionInput], "attention.qkv.input");
  attention_.declare(places);
  declare_contribution(places, kAttentionNorm, "attention");
  places_[kMid] = places.add(nn::replicated({.name = "ResidualMid",
                                             .path = "mid",
                                             .text = "residual stream between attention and MLP",
                                             .bias = "not applicable"},
                                            hidden_size_));
  places_[kMidLens] = head.declare_lens(places, "LogitLensMid", "mid_lens", "layers[n].mid");
  mlp_norm_.declare(places, "mlp_norm");
  places_[kMlpInput] = add_norm("mlp.input", "output of the norm before the MLP");
  places.add_alias(places_[kMid], "mlp_norm.input");
  places.add_alias(places_[kMlpInput], "mlp_norm.output");
  places.add_alias(places_[kMlpInput], "mlp.fc1.input");
  mlp_.declare(places);
  declare_contribution(places, kMlpNorm, "mlp");
  places_[kLayerOutput] = places.add(nn::replicated({.name = "HiddenStates",
                                                     .path = "output",
                                                     .text = "output of the transformer layer",
                                                     .bias = "not applicable",
                                                     .legacy_flag = 7},
                                                    hidden_size_));
  places_[kOutputLens] = head.declare_lens(places, "LogitLens", "lens", "layers[n].output");
  places.end_layers();
}

at::Tensor TransformerLayer::drop(const at::Tensor& x_BTH, const char* site,
                                  const nn::ForwardContext& context) const {
  if (dropout_ == 0.0 || !context.is_training) return x_BTH;
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < x_BTH.size(0); ++row) rows.push_back(context.first_row + row);
  const std::uint64_t key =
      base::mix(base::mix(context.seed, base::hash_of(layer_name(layer_) + site)),
                static_cast<std::uint64_t>(context.step));
  return x_BTH * nn::dropout_factors(key, rows, x_BTH.size(1) * x_BTH.size(2), dropout_)
                     .view(x_BTH.sizes())
                     .to(x_BTH.scalar_type());
}

at::Tensor TransformerLayer::forward(const at::Tensor& x_BTH, const Head& head,
                                     const nn::ForwardContext& context) const {
  if (context.cache != nullptr) context.cache->enter(layer_);
  const at::Tensor attended = attention_.forward(
      context.point(places_[kAttentionInput], input_norm_.forward(x_BTH, context)), context);
  const at::Tensor attended_BTH = drop(attended, ".attention_dropout", context);
  show_contribution(kAttentionNorm, attended_BTH, x_BTH, context);
  const at::Tensor mid_BTH = context.point(places_[kMid], x_BTH + attended_BTH);
  head.show_lens(places_[kMidLens], mid_BTH, context);
  const at::Tensor fed =
      mlp_.forward(context.point(places_[kMlpInput], mlp_norm_.forward(mid_BTH, context)), context);
  const at::Tensor fed_BTH = drop(fed, ".mlp_dropout", context);
  show_contribution(kMlpNorm, fed_BTH, mid_BTH, context);
  return mid_BTH + fed_BTH;
}

std::vector<nn::LowRank> TransformerLayer::adapters() const {
  std::vector<nn::LowRank> all = attention_.adapters();
  for (nn::LowRank& adapter : mlp_.adapters()) all.push_back(std::move(adapter));
  return all;
}

std::vector<nn::Parameter> TransformerLayer::parameters() const {
  std::vector<nn::Parameter> all;
  append(all, input_norm_);
  append(all, attention_);
  append(all, mlp_norm_);
  append(all, mlp_);
  return all;
}

Gpt::Gpt(const nn::BuildContext& context, const config::ModelConfig& config,
         std::int64_t micro_batch)
    : config_(config),
      dtype_(context.compute_dtype),
      word_embeddings_(context, "embedding.word_embeddings", config.vocab_size, config.hidden_size,
                       config.init_method_std),
      output_layer_(make_output_layer(context, config)),
      head_(context, config, output_layer_ ? *output_layer_ : word_embeddings_.weight()),
      places_(kNumPlaces) {
  if (config.position_embedding_type == "learned_absolute") {
    position_embeddings_ =
        nn::make_parameter(context, "embedding.position_embeddings.weight",
                           {config.max_positions(), config.hidden_size},
                           mesh::Placement::replicate(), nn::Init::kNormal, config.init_method_std);
  }
  layers_.reserve(static_cast<std::size_t>(config.num_layers));
  for (int layer = 1; layer <= config.num_layers; ++layer)
    layers_.emplace_back(context, config, layer);
  points::PlaceTableBuilder places(static_cast<int>(config.num_layers),
                                   {micro_batch, config.seq_length, dtypes::name_of(dtype_)});
  declare(places);
  place_table_ = std::make_shared<const points::PlaceTable>(places.build());
}

void Gpt::declare(points::PlaceTableBuilder& places) {
  places_[kTokens] = places.add({.name = "InputTokens",
                                 .path = "tokens",
                                 .text = "token ids and positions",
                                 .bias = "not applicable",
                                 .legacy_flag = 8,
                                 .writable = false,
                                 .dims = {"ids_positions", "batch", "sequence"}});
  if (position_embeddings_) {
    places_[kWordEmbedding] = places.add(
        nn::replicated({.path = "embedding.word_embeddings.output",
                        .text = "embedded tokens, before the learned positions are added",
                        .bias = "not applicable"},
                       config_.hidden_size));
    places_[kPositionEmbedding] =
        nn::declare(places, *position_embeddings_, "embedding.position_embeddings.weight");
  }
  places_[kEmbedding] = places.add(
      nn::replicated({.name = "Embedding",
                      .path = "embedding.output",
                      .text = "input of the first layer: embedded tokens, learned positions added",
                      .bias = "not applicable",
                      .hidden_state = 0},
                     config_.hidden_size));
  places_[kEmbeddingLens] =
      head_.declare_lens(places, "LogitLensEmbedding", "embedding.lens", "embedding.output");
  for (TransformerLayer& layer : layers_) layer.declare(places, head_);
  places.set_layer_ends(places_[kEmbedding], layers_.front().output(),
                        {"input", "input_norm.input"});
  places.add_alias(places_[kTokens], "embedding.input");
  places.add_alias(places_[kTokens], "embedding.word_embeddings.input");
  if (!position_embeddings_)
    places.add_alias(places_[kEmbedding], "embedding.word_embeddings.output");
  places.add_alias(layers_.back().output(), "final_norm.input");
  head_.declare(places);
  declare_updates(places);
}

// train::UpdateWatch computes the value.
void Gpt::declare_updates(points::PlaceTableBuilder& places) const {
  points::Place place{.name = "Updates",
                      .path = "updates",
                      .text =
                          "norms of weights, gradients, updates and Adam's moments, a row for "
                          "each parameter; once in a step",
                      .dtype = "float64",
                      .formula = "sums over each parameter, after the optimizer's step",
                      .columns = {kUpdateColumns.begin(), kUpdateColumns.end()},
                      .dims = {"step", "parameters", "features"}};
  place.features = std::ssize(kUpdateColumns);
  double numbers = 0;
  for (const nn::Parameter& parameter : parameters()) {
    if (!parameter.is_trained) continue;
    place.parameters.push_back(parameter.name);
    numbers += static_cast<double>(c10::multiply_integers(parameter.full_shape));
  }
  if (!place.parameters.empty())
    place.flops_per_token = 10.0 * numbers / static_cast<double>(place.parameters.size());
  places.add(nn::only_traced(std::move(place)));
}

at::Tensor Gpt::hidden_states(const at::Tensor& tokens_BT,
                              const nn::ForwardContext& context) const {
  context.pass.capture_derived(places_[kTokens], {2, tokens_BT.size(0), tokens_BT.size(1)},
                               at::kLong,
                               [&] { return ids_and_positions(tokens_BT, context.positions()); });
  at::Tensor x_BTH = word_embeddings_.forward(tokens_BT);
  // With a frozen embedding, the values before the first trained parameter have a gradient only if
  // an entry or a program may need it.
  const bool is_watched = context.pass.armed() || context.interventions != nullptr;
  if (is_watched && at::GradMode::is_enabled() && !x_BTH.requires_grad())
    x_BTH.set_requires_grad(true);
  if (position_embeddings_) {
    x_BTH = context.point(places_[kWordEmbedding], x_BTH);
    const at::Tensor positions =
        context.intervene(places_[kPositionEmbedding], position_embeddings_->as(dtype_));
    // The gradient of a position is a sum over documents, which at::embedding rounds at each term.
    x_BTH =
        x_BTH +
        (context.positions().defined()
             ? at::embedding(positions.to(at::toOpMathType(dtype_)), context.positions()).to(dtype_)
             : positions.narrow(0, 0, tokens_BT.size(1)));
  }
  x_BTH = context.point(places_[kEmbedding], x_BTH);
  head_.show_lens(places_[kEmbeddingLens], x_BTH, context);
  for (int layer = 1; const TransformerLayer& part : layers_) {
    // A view, so that this output and the output of the previous layer have separate gradient
    // hooks.
    x_BTH = context.skips(layer) ? x_BTH.view_as(x_BTH) : part.forward(x_BTH, head_, context);
    x_BTH = context.point(part.output(), x_BTH);
    head_.show_lens(part.output_lens(), x_BTH, context);
    ++layer;
  }
  return x_BTH;
}

at::Tensor Gpt::loss(const at::Tensor& tokens_BT, const at::Tensor& labels_BT,
                     const nn::ForwardContext& context, const nn::LossMask& mask) const {
  return head_.loss(hidden_states(tokens_BT, context), labels_BT, context, mask);
}

at::Tensor Gpt::logits(const at::Tensor& tokens_BT, const nn::ForwardContext& context) const {
  return head_.forward(hidden_states(tokens_BT, context), context);
}

// The scores of the other tokens are computed only if a program acts on them.
at::Tensor Gpt::next_logits(const at::Tensor& tokens_BT, const at::Tensor& last_B,
                            const nn::ForwardContext& context) const {
  const at::Tensor x_BTH = hidden_states(tokens_BT, context);
  const auto last_of = [&](const at::Tensor& all_BTX) {
    const at::Tensor index_B11 = last_B.view({-1, 1, 1});
    return all_BTX.gather(1, index_B11.expand({-1, 1, all_BTX.size(2)}));
  };
  if (head_.is_watched(context)) return last_of(head_.forward(x_BTH, context)).squeeze(1);
  return head_.forward(x_BTH.size(1) == 1 ? x_BTH : last_of(x_BTH), context).squeeze(1);
}

at::Tensor Gpt::final_states(const at::Tensor& tokens_BT, const nn::ForwardContext& context) const {
  return head_.norm(hidden_states(tokens_BT, context), context);
}

std::vector<nn::LowRank> Gpt::adapters() const {
  std::vector<nn::LowRank> all;
  for (const TransformerLayer& layer : layers_)
    for (nn::LowRank& adapter : layer.adapters()) all.push_back(std::move(adapter));
  return all;
}

std::vector<nn::Parameter> Gpt::parameters() const {
  std::vector<nn::Parameter> all;
  append(all, word_embeddings_);
  if (position_embeddings_) all.push_back(*position_embeddings_);
  for (const TransformerLayer& layer : layers_) append(all, layer);
  for (nn::Parameter& parameter : head_.norm_parameters()) all.push_back(std::move(parameter));
  if (output_layer_) all.push_back(*output_layer_);
  return all;
}

Gpt describe_model(const config::ModelConfig& config, int tensor_ranks, std::int64_t micro_batch,
                   const std::string& activations) {
  nn::BuildContext context;
  context.device = at::kMeta;
  context.described_ranks = tensor_ranks;
  context.frozen = config.frozen();
  context.compute_dtype = dtypes::named(activations);
  return Gpt(context, config, micro_batch);
}

base::Status check_frozen(const config::ModelConfig& config) {
  const std::vector<nn::Parameter> all = describe_model(config, 1).parameters();
  for (const std::string& pattern : config.freeze) {
    config::ModelConfig alone = config;
    alone.freeze = {pattern};
    const std::vector<nn::Parameter> left = describe_model(alone, 1).parameters();
    if (std::ranges::all_of(left, &nn::Parameter::is_trained)) {
      return base::invalid_argument("--freeze", "\"" + pattern + "\" matches no parameter",
                                    "names look like " + all.back().name + " and layers.1.*");
    }
  }
  if (std::ranges::any_of(all, &nn::Parameter::is_trained)) return {};
  return base::invalid_argument("--freeze", "leaves no parameter to train", "freeze fewer");
}

std::int64_t num_parameters(const config::ModelConfig& config) {
  std::int64_t numbers = 0;
  for (const nn::Parameter& parameter : describe_model(config, 1).parameters())
    numbers += parameter.local.numel();
  return numbers;
}

}  // namespace tt::model
