#include "tensor_tracer/nn/attention.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor_tracer/base/hash.h"
#include "tensor_tracer/dtypes/names.h"
#include "tensor_tracer/nn/random.h"

// Shapes: B batch, T sequence, N local heads, G local query groups, D head size, H hidden.

namespace tt::nn {
namespace {

enum : std::size_t {
  kQkv,
  kQuery,
  kKey,
  kValue,
  kNormedQuery,
  kNormedKey,
  kRotatedQuery,
  kRotatedKey,
  kAttentionLogits,
  kProbabilities,
  kEntropy,  // the three places of health() in this order
  kLargestScore,
  kFirstTokenShare,
  kContext,
  kAttentionOutput,
  kNumAttentionPlaces,
};

LinearOptions qkv_options(const config::ModelConfig& config, const std::string& name) {
  return {name + ".qkv", config.hidden_size,
          (config.num_attention_heads + 2 * config.query_groups()) * config.head_size(),
          config.has_qkv_bias(), config.init_method_std};
}

LinearOptions proj_options(const config::ModelConfig& config, const std::string& name) {
  return {name + ".proj", config.num_attention_heads * config.head_size(), config.hidden_size,
          config.has_proj_bias(), residual_init_std(config)};
}

// Llama 3's scaling of rotary frequencies (Llama Team 2024, arXiv 2407.21783; its released code):
// long waves turn slower by the factor, short ones stay, and a linear blend lies between.
at::Tensor scaled(const at::Tensor& frequency, const config::ModelConfig& config) {
  if (config.rope_scaling_factor == 1.0) return frequency;
  const double low = config.rope_low_freq_factor, high = config.rope_high_freq_factor;
  // Turns of a wave within the sequence length of the first training.
  const at::Tensor turns =
      frequency * (static_cast<double>(config.rope_original_max_positions) / (2 * M_PI));
  const at::Tensor kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
  return frequency * (kept + (1.0 - kept) / config.rope_scaling_factor);
}

// Angles of rotary embedding (Su et al. 2021, arXiv 2104.09864); halves not interleaved, as in
// Llama.
at::Tensor rotary_angles(const config::ModelConfig& config) {
  const auto head_size = static_cast<double>(config.head_size());
  const at::Tensor exponent =
      at::arange(0, config.head_size(), 2, at::device(at::kCPU).dtype(at::kDouble)) / head_size;
  const at::Tensor frequency =
      scaled(at::pow(at::full({}, config.rotary_base, exponent.options()), exponent.neg()), config);
  const at::Tensor angle = at::outer(at::arange(config.seq_length, exponent.options()), frequency);
  return at::cat({angle, angle}, -1);
}

// nullopt: queries and keys are not normalized.
std::optional<Norm> make_head_norm(const BuildContext& context, const config::ModelConfig& config,
                                   const std::string& name) {
  if (!config.qk_layernorm) return std::nullopt;
  return Norm(context, name, norm_kind(config), config.head_size(), config.norm_epsilon,
              NormRows::kOwnHeads);
}

}  // namespace

std::vector<mesh::Segment> qkv_segments(const config::ModelConfig& config, int ranks) {
  const int kv_chunks = static_cast<int>(std::min<std::int64_t>(config.query_groups(), ranks));
  const mesh::Segment keys{config.query_groups() * config.head_size(), kv_chunks};
  return {{config.num_attention_heads * config.head_size(), ranks}, keys, keys};
}

Attention::Attention(const BuildContext& context, const config::ModelConfig& config,
                     const std::string& name)
    : config_(config),
      name_(name),
      tensor_rank_(context.tensor.rank()),
      tensor_ranks_(context.tensor_ranks()),
      local_heads_(config.num_attention_heads / tensor_ranks_),
      local_groups_(std::max<std::int64_t>(1, config.query_groups() / tensor_ranks_)),
      qkv_(context, qkv_options(config, name), qkv_segments(config, tensor_ranks_)),
      proj_(context, proj_options(config, name)),
      query_norm_(make_head_norm(context, config, name + ".query_norm")),
      key_norm_(make_head_norm(context, config, name + ".key_norm")),
      places_(kNumAttentionPlaces),
      derived_dtype_(dtypes::name_of(at::toOpMathType(context.compute_dtype))) {
  qkv_.add_adapters(context, config,
                    {{"query", name + ".query", 0, 1},
                     {"key", name + ".key", 1, 1},
                     {"value", name + ".value", 2, 1},
                     {"qkv", name + ".qkv", 0, 3}});
  proj_.add_adapters(context, config, {{"proj", name + ".proj", 0, 1}});
  if (config.position_embedding_type == "rope") {
    const at::Tensor angle_TD = rotary_angles(config);
    const auto dtype = at::toOpMathType(context.compute_dtype);
    cos_TD_ = angle_TD.cos().to(dtype);
    sin_TD_ = angle_TD.sin().to(dtype);
  }
}

void Attention::declare(points::PlaceTableBuilder& places) {
  declare_heads(places);
  places_[kAttentionLogits] = places.add(by_head(
      {.path = "attention.logits",
       .text = "queries times keys / sqrt(head size), before the softmax; 0 for keys of the future "
               "and of other documents",
       .formula = "attention.query @ attention.key.T / sqrt(head size)"}));
  places_[kProbabilities] = places.add(by_head(
      {.name = "RawAttentionScore",
       .path = "attention.scores",
       .text = "attention probabilities by head, recomputed from queries and keys, before dropout",
       .legacy_flag = 2,
       .formula = "softmax(attention.logits) over the keys up to the query",
       .writable = false,
       .numbers = "attention probability"}));
  declare_health(places);
  places_[kContext] =
      places.add(sharded({.name = "ContextLayer",
                          .path = "attention.context",
                          .text = "attention's weighted values by head, before the projection",
                          .bias = "not applicable",
                          .legacy_flag = 3,
                          .has_heads = true},
                         {qkv_segments(config_, tensor_ranks_)[0]}, tensor_ranks_));
  places.add_alias(places_[kContext], "attention.proj.input");
  proj_.declare(places, "attention.proj", "ProjWeight");
  places_[kAttentionOutput] =
      places.add(replicated({.name = "AttentionOutput",
                             .path = "attention.output",
                             .text = "output of attention, before the residual is added",
                             .bias = config_.has_proj_bias() ? "included" : "none",
                             .legacy_flag = 6},
                            config_.hidden_size));
  places.add_alias(places_[kAttentionOutput], "attention.proj.output");
}

// Declares the places of queries, keys and values.
void Attention::declare_heads(points::PlaceTableBuilder& places) {
  const auto qkv = qkv_segments(config_, tensor_ranks_);
  const std::string bias = config_.has_qkv_bias() ? "included" : "none";
  const auto add_heads = [&](const char* name, const char* path, const char* text,
                             const mesh::Segment& segment) {
    return places.add(
        sharded({.name = name, .path = path, .text = text, .bias = bias, .has_heads = true},
                {segment}, tensor_ranks_));
  };
  qkv_.declare(places, "attention.qkv", "QkvWeight");
  places_[kQkv] =
      places.add(sharded({.name = "QKV",
                          .path = "attention.qkv",
                          .text = "queries, keys and values of all heads, before rotary embedding",
                          .bias = bias,
                          .legacy_flag = 1},
                         qkv, tensor_ranks_));
  places.add_alias(places_[kQkv], "attention.qkv.output");
  places_[kQuery] =
      add_heads("Query", "attention.query", "queries by head, before rotary embedding", qkv[0]);
  places_[kKey] =
      add_heads("Key", "attention.key", "keys by query group, before rotary embedding", qkv[1]);
  places_[kValue] = add_heads("Value", "attention.value", "values by query group", qkv[2]);
  if (query_norm_) {
    query_norm_->declare(places, "attention.query_norm");
    places_[kNormedQuery] =
        add_heads("", "attention.query_norm.output", "queries by head, normalized by head", qkv[0]);
    key_norm_->declare(places, "attention.key_norm");
    places_[kNormedKey] = add_heads("", "attention.key_norm.output",
                                    "keys by query group, normalized by head", qkv[1]);
  }
  if (!cos_TD_.defined()) return;
  places_[kRotatedQuery] =
      add_heads("", "attention.query_rotated", "queries by head, after rotary embedding", qkv[0]);
  places_[kRotatedKey] =
      add_heads("", "attention.key_rotated", "keys by query group, after rotary embedding", qkv[1]);
}

// Declares the places that show the state of each head: [batch, sequence, heads].
void Attention::declare_health(points::PlaceTableBuilder& places) {
  const auto add = [&](const char* path, const char* text, const char* formula) {
    points::Place place = by_head({.path = path, .text = text, .formula = formula});
    place.dims = {"batch", "sequence", "features"};
    place.features = config_.num_attention_heads;
    place.placement.dim = 2;
    return places.add(only_traced(std::move(place)));
  };
  places_[kEntropy] = add("attention.entropy", "entropy in nats of each query's attention, by head",
                          "-(p * log(p)).sum(-1) of p = layers[n].attention.scores");
  places_[kLargestScore] =
      add("attention.largest_score", "largest score of each query before the softmax, by head",
          "the largest of layers[n].attention.logits up to the query");
  places_[kFirstTokenShare] =
      add("attention.first_token_share", "attention of each query to the first token, by head",
          "layers[n].attention.scores[..., 0]");
}

points::Place Attention::by_head(points::Place place) const {
  place.bias = "not applicable";
  place.dtype = derived_dtype_;
  const auto size = static_cast<double>(config_.num_attention_heads * config_.head_size());
  place.flops_per_token = 2.0 * size * static_cast<double>(config_.seq_length);
  place.dims = {"batch", "heads", "sequence", "keys"};
  place.features = config_.seq_length;
  place.placement = mesh::Placement::shard(1, {{config_.num_attention_heads, tensor_ranks_}});
  place.gradient = place.placement;
  return place;
}

at::Tensor Attention::normalize(const std::optional<Norm>& norm, const at::Tensor& x_BTF,
                                std::size_t place, const ForwardContext& context) const {
  if (!norm) return x_BTF;
  const at::Tensor x_BTND = x_BTF.unflatten(-1, {-1, config_.head_size()});
  return context.point(places_[place], norm->forward(x_BTND, context).flatten(-2));
}

at::Tensor Attention::rotate(const at::Tensor& x_BTF, std::size_t place,
                             const ForwardContext& context) const {
  if (!cos_TD_.defined()) return x_BTF;
  const at::Tensor positions = context.positions();
  // [T, 1, D], or [B, T, 1, D] if the positions of the rows differ.
  const auto by_token = [&](const at::Tensor& x_TD) {
    if (positions.defined()) return at::embedding(x_TD, positions).unsqueeze(2);
    return x_TD.narrow(0, 0, x_BTF.size(1)).unsqueeze(1);
  };
  const at::Tensor cos_T1D = by_token(cos_TD_), sin_T1D = by_token(sin_TD_);
  const at::Tensor x_BTND = x_BTF.unflatten(-1, {-1, config_.head_size()});
  const auto halves = x_BTND.chunk(2, -1);
  const at::Tensor turned_BTND = at::cat({halves[1].neg(), halves[0]}, -1);
  const at::Tensor rotated_BTND = x_BTND * cos_T1D + turned_BTND * sin_T1D;
  return context.point(places_[place], rotated_BTND.to(x_BTF.scalar_type()).flatten(-2));
}

// [B, N, T, T]: per head, each query times the keys that it attends to. tril_() works in place,
// which is cheaper than a mask of booleans. Other keys are set to zero here, before probabilities()
// adds -inf, so that a key that is not finite does not affect queries that do not see it.
at::Tensor Attention::logits(const at::Tensor& q_BNTD, const at::Tensor& k_BNTD,
                             const RowDocuments& documents) const {
  const double scale = 1.0 / std::sqrt(static_cast<double>(config_.head_size()));
  at::Tensor logits_BNTT = (q_BNTD * scale).matmul(k_BNTD.transpose(-2, -1));
  if (!documents.are_given()) return logits_BNTT.tril_();
  return logits_BNTT.masked_fill_(documents.visible().logical_not(), 0.0);
}

// Per head, each query's weights of the keys that it attends to.
at::Tensor Attention::probabilities(const at::Tensor& logits_BNTT,
                                    const RowDocuments& documents) const {
  const std::int64_t length = logits_BNTT.size(2);
  const double infinity = std::numeric_limits<double>::infinity();
  if (documents.are_given())
    return logits_BNTT.masked_fill(documents.visible().logical_not(), -infinity).softmax(-1);
  const at::Tensor future_TT =
      at::full({length, length}, -infinity, logits_BNTT.options()).triu_(1);
  return logits_BNTT.add(future_TT).softmax(-1);
}

at::Tensor Attention::attend(const at::Tensor& q_BNTD, const at::Tensor& k_BNTD,
                             const at::Tensor& v_BNTD, const ForwardContext& context) const {
  const bool drops = config_.attention_dropout > 0.0 && context.is_training;
  const bool writes =
      context.interventions != nullptr && context.interventions->writes(places_[kAttentionLogits]);
  const RowDocuments& documents = context.documents;
  at::Tensor logits_BNTT;  // undefined: the fused operator computes them
  if (writes || drops) logits_BNTT = logits(q_BNTD, k_BNTD, documents);
  if (writes) {
    const at::Tensor written = context.intervene(places_[kAttentionLogits], logits_BNTT);
    logits_BNTT = documents.are_given()
                      ? written.masked_fill(documents.visible().logical_not(), 0.0)
                      : written.tril();
  }
  show(q_BNTD, k_BNTD, writes ? logits_BNTT : at::Tensor(), context);
  show_health(q_BNTD, k_BNTD, writes ? logits_BNTT : at::Tensor(), context);
  if (!logits_BNTT.defined()) return attend_fused(q_BNTD, k_BNTD, v_BNTD, context);
  const auto as_it_is = [](const at::Tensor& gradient, at::ScalarType dtype) {
    return gradient.to(dtype);
  };
  show_gradient(kAttentionLogits, logits_BNTT, context, as_it_is);
  const at::Tensor probability_BNTT = probabilities(logits_BNTT, documents);
  show_gradient(kProbabilities, probability_BNTT, context, as_it_is);
  if (!drops) return probability_BNTT.matmul(v_BNTD);
  return (probability_BNTT * dropout(probability_BNTT, context)).matmul(v_BNTD);
}

// The fused operator does not keep the probabilities P. The gradient of P is dP = dy @ v'; the
// gradient of the logits is P * (dP - sum(dP * P)).
at::Tensor Attention::attend_fused(const at::Tensor& q_BNTD, const at::Tensor& k_BNTD,
                                   const at::Tensor& v_BNTD, const ForwardContext& context) const {
  const RowDocuments& documents = context.documents;
  const at::Tensor y_BNTD =
      documents.are_given()
          ? at::scaled_dot_product_attention(q_BNTD, k_BNTD, v_BNTD, documents.visible())
          : at::scaled_dot_product_attention(q_BNTD, k_BNTD, v_BNTD, {}, 0.0, /*is_causal=*/true);
  if (!context.pass.armed()) return y_BNTD;
  const auto of_probabilities = [v_BNTD](const at::Tensor& dy_BNTD, at::ScalarType dtype) {
    const at::Tensor rows_BNTD = v_BNTD.narrow(0, 0, dy_BNTD.size(0));
    return dy_BNTD.to(dtype).matmul(rows_BNTD.to(dtype).transpose(2, 3));
  };
  show_gradient(kProbabilities, y_BNTD, context, of_probabilities);
  show_gradient(
      kAttentionLogits, y_BNTD, context,
      [this, q_BNTD, k_BNTD, documents, of_probabilities](const at::Tensor& dy_BNTD,
                                                          at::ScalarType dtype) {
        const std::int64_t rows = dy_BNTD.size(0);
        const RowDocuments first = documents.first(rows);
        const at::Tensor p_BNTT = probabilities(
            logits(q_BNTD.narrow(0, 0, rows).to(dtype), k_BNTD.narrow(0, 0, rows).to(dtype), first),
            first);
        const at::Tensor dp_BNTT = of_probabilities(dy_BNTD, dtype);
        return p_BNTT * (dp_BNTT - (dp_BNTT * p_BNTT).sum(-1, /*keepdim=*/true));
      });
  return y_BNTD;
}

// Dropout factors [B, N, T, T], the same on every mesh.
at::Tensor Attention::dropout(const at::Tensor& like_BNTT, const ForwardContext& context) const {
  std::vector<std::int64_t> streams;
  for (std::int64_t row = 0; row < like_BNTT.size(0); ++row) {
    for (std::int64_t head = 0; head < local_heads_; ++head) {
      streams.push_back((context.first_row + row) * config_.num_attention_heads +
                        tensor_rank_ * local_heads_ + head);
    }
  }
  const std::uint64_t key = base::mix(base::mix(context.seed, base::hash_of(name_ + ".dropout")),
                                      static_cast<std::uint64_t>(context.step));
  const std::int64_t numbers = like_BNTT.size(2) * like_BNTT.size(3);
  return dropout_factors(key, streams, numbers, config_.attention_dropout)
      .view(like_BNTT.sizes())
      .to(like_BNTT.scalar_type());
}

// Passes logits and probabilities to programs that read them and to the tracer. `written_BNTT`: the
// logits that a program wrote; undefined: the logits are computed from queries and keys.
void Attention::show(const at::Tensor& q_BNTD, const at::Tensor& k_BNTD,
                     const at::Tensor& written_BNTT, const ForwardContext& context) const {
  const auto all_logits = [&](std::int64_t rows, at::ScalarType dtype) {
    if (written_BNTT.defined()) return written_BNTT.narrow(0, 0, rows).to(dtype);
    return logits(q_BNTD.narrow(0, 0, rows).to(dtype), k_BNTD.narrow(0, 0, rows).to(dtype),
                  context.documents.first(rows));
  };
  const auto make = [&](std::size_t place, std::int64_t rows, at::ScalarType dtype) {
    const at::Tensor made = all_logits(rows, dtype);
    return place == kProbabilities ? probabilities(made, context.documents.first(rows)) : made;
  };
  for (const std::size_t place : {std::size_t{kAttentionLogits}, std::size_t{kProbabilities}}) {
    const bool is_met = place == kAttentionLogits && written_BNTT.defined();
    if (context.interventions != nullptr && !is_met && context.interventions->reads(places_[place]))
      context.intervene(places_[place], make(place, q_BNTD.size(0), q_BNTD.scalar_type()));
    const std::int64_t rows = context.pass.rows_wanted(places_[place], q_BNTD.size(0));
    if (rows == 0) continue;
    const auto dtype = at::toOpMathType(q_BNTD.scalar_type());
    const std::int64_t length = q_BNTD.size(2);
    context.pass.capture_derived(places_[place], {rows, q_BNTD.size(1), length, length}, dtype,
                                 [&] { return make(place, rows, dtype); });
  }
}

// [3, rows, tokens, N] of the wanted rows and tokens: entropy, largest score, share of the first
// token of the document.
at::Tensor Attention::health(const at::Tensor& q_BNTD, const at::Tensor& k_BNTD,
                             const at::Tensor& written_BNTT, const trace::TokenWindow& wanted,
                             const RowDocuments& all_documents) const {
  const auto dtype = at::toOpMathType(q_BNTD.scalar_type());
  const auto queries_of = [&](const at::Tensor& x) {
    return x.narrow(0, 0, wanted.rows).narrow(2, wanted.first_token, wanted.tokens()).to(dtype);
  };
  const double scale = 1.0 / std::sqrt(static_cast<double>(config_.head_size()));
  const at::Tensor k_BNDT = k_BNTD.narrow(0, 0, wanted.rows).to(dtype).transpose(2, 3);
  const at::Tensor scores_BNQT = written_BNTT.defined()
                                     ? queries_of(written_BNTT)
                                     : (queries_of(q_BNTD) * scale).matmul(k_BNDT);
  const RowDocuments documents = all_documents.first(wanted.rows);
  const auto wanted_of = [&](const at::Tensor& x, std::int64_t dim) {
    return x.narrow(dim, wanted.first_token, wanted.tokens());
  };
  const at::Tensor hidden_QT =
      documents.are_given()
          ? wanted_of(documents.visible(), 2).logical_not()
          : at::ones({wanted.tokens(), k_BNTD.size(2)}, scores_BNQT.options().dtype(at::kBool))
                .triu_(1 + wanted.first_token);
  const at::Tensor masked_BNQT =
      scores_BNQT.masked_fill(hidden_QT, -std::numeric_limits<double>::infinity());
  const at::Tensor p_BNQT = masked_BNQT.softmax(-1);
  const auto share_of_first = [&] {
    if (!documents.are_given()) return p_BNQT.select(-1, 0);
    const at::Tensor first_B1Q1 = wanted_of(documents.starts(), 1).unsqueeze(1).unsqueeze(-1);
    return p_BNQT.gather(-1, first_B1Q1.expand({-1, p_BNQT.size(1), -1, -1})).squeeze(-1);
  };
  return at::stack({at::special_entr(p_BNQT).sum(-1), masked_BNQT.amax(-1), share_of_first()})
      .transpose(2, 3);
}

void Attention::show_health(const at::Tensor& q_BNTD, const at::Tensor& k_BNTD,
                            const at::Tensor& written_BNTT, const ForwardContext& context) const {
  const std::int64_t batch = q_BNTD.size(0), length = q_BNTD.size(2);
  trace::TokenWindow all;
  for (std::size_t place = kEntropy; place <= kFirstTokenShare; ++place)
    all.include(context.pass.wanted(places_[place], batch, length));
  if (all.rows == 0) return;
  at::Tensor shared_3BQN;  // computed for the first of the places that an entry needs
  const auto dtype = at::toOpMathType(q_BNTD.scalar_type());
  const std::vector<std::int64_t> sizes = {all.rows, length, local_heads_};
  for (std::size_t place = kEntropy; place <= kFirstTokenShare; ++place) {
    if (context.pass.wanted(places_[place], batch, length).rows == 0) continue;
    context.pass.capture_derived(places_[place], sizes, dtype, [&] {
      if (!shared_3BQN.defined())
        shared_3BQN = health(q_BNTD, k_BNTD, written_BNTT, all, context.documents);
      at::Tensor whole_BTN = at::zeros(sizes, shared_3BQN.options());
      whole_BTN.narrow(1, all.first_token, all.tokens())
          .copy_(shared_3BQN[static_cast<std::int64_t>(place - kEntropy)]);
      return whole_BTN;
    });
  }
}

// Passes the gradient of a place to the tracer. `make` computes it from the first rows of the
// gradient of `from_BNTX`.
void Attention::show_gradient(std::size_t place, const at::Tensor& from_BNTX,
                              const ForwardContext& context, const MakeGradient& make) const {
  const std::int64_t rows =
      context.pass.rows_wanted(places_[place], from_BNTX.size(0), /*gradient=*/true);
  if (rows == 0) return;
  const auto dtype = at::toOpMathType(from_BNTX.scalar_type());
  const std::int64_t length = from_BNTX.size(2);
  context.pass.capture_derived_gradient(places_[place],
                                        {{rows, from_BNTX.size(1), length, length},
                                         dtype,
                                         from_BNTX,
                                         [rows, dtype, make](const at::Tensor& gradient) {
                                           return make(gradient.narrow(0, 0, rows), dtype);
                                         }});
}

// Every query group serves the same number of neighbouring heads.
at::Tensor Attention::for_each_head(const at::Tensor& x_BGTD) const {
  const std::int64_t repeat = local_heads_ / local_groups_;
  if (repeat == 1) return x_BGTD;
  return x_BGTD.unsqueeze(2).expand({-1, -1, repeat, -1, -1}).flatten(1, 2);
}

at::Tensor Attention::forward(const at::Tensor& x, const ForwardContext& context) const {
  const at::Tensor qkv = context.point(places_[kQkv], qkv_.forward(x, context));
  const std::int64_t batch = x.size(0);
  const std::int64_t length = x.size(1);
  const std::int64_t size = config_.head_size();
  // One split, whose gradient is one concatenation. The gradient of narrow() would be a sum of
  // zero-filled copies.
  const auto parts =
      qkv.split_with_sizes({local_heads_ * size, local_groups_ * size, local_groups_ * size}, -1);
  // The outputs of one node get their gradients together, but programs need them one after another.
  // A view makes a separate node.
  const auto own = [&](const at::Tensor& part) {
    return context.interventions != nullptr && part.requires_grad() ? part.view_as(part) : part;
  };
  at::Tensor q = context.point(places_[kQuery], own(parts[0]));
  at::Tensor k = context.point(places_[kKey], own(parts[1]));
  const at::Tensor v = context.point(places_[kValue], own(parts[2]));
  q = normalize(query_norm_, q, kNormedQuery, context);
  k = normalize(key_norm_, k, kNormedKey, context);
  const auto heads_of = [&](const at::Tensor& part) {
    return part.view({batch, length, -1, size}).transpose(1, 2);
  };
  const at::Tensor q_BNTD = heads_of(rotate(q, kRotatedQuery, context));
  const at::Tensor k_BGTD = heads_of(rotate(k, kRotatedKey, context));
  const at::Tensor v_BGTD = heads_of(v);
  const bool is_step = context.cache != nullptr && context.cache->is_step();
  if (context.cache != nullptr && !is_step) context.cache->store(k_BGTD, v_BGTD);
  const at::Tensor y_BNTD =
      is_step ? context.cache->attend(q_BNTD, k_BGTD, v_BGTD)
              : attend(q_BNTD, for_each_head(k_BGTD), for_each_head(v_BGTD), context);
  const at::Tensor y = context.point(
      places_[kContext], y_BNTD.transpose(1, 2).reshape({batch, length, local_heads_ * size}));
  return context.point(places_[kAttentionOutput], proj_.forward(y, context));
}

std::vector<LowRank> Attention::adapters() const {
  std::vector<LowRank> all = qkv_.adapters();
  all.insert(all.end(), proj_.adapters().begin(), proj_.adapters().end());
  return all;
}

std::vector<Parameter> Attention::parameters() const {
  std::vector<Parameter> all = qkv_.parameters();
  const auto append = [&](std::vector<Parameter> some) {
    for (Parameter& parameter : some) all.push_back(std::move(parameter));
  };
  if (query_norm_) {
    append(query_norm_->parameters());
    append(key_norm_->parameters());
  }
  append(proj_.parameters());
  return all;
}

}  // namespace tt::nn
