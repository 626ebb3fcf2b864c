#include "tensor_tracer/nn/attention.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor_tracer/base/hash.h"
#include "tensor_tracer/nn/random.h"

// Shapes: B batch, T sequence, N local heads, G local query groups, D head size, H hidden.

namespace tt::nn {
namespace {

LinearOptions qkv_options(const AttentionOptions& options) {
  return {options.name + ".qkv", options.hidden_size,
          (options.num_heads + 2 * options.num_query_groups) * options.head_size, options.bias,
          options.init_std};
}

LinearOptions proj_options(const AttentionOptions& options) {
  return {options.name + ".proj", options.num_heads * options.head_size, options.hidden_size,
          options.bias, options.output_init_std};
}

// Angles of Su et al. 2021 (arXiv 2104.09864), halves not interleaved, as in Llama.
at::Tensor rotary_angles(const AttentionOptions& options) {
  const auto as_double = at::TensorOptions().dtype(at::kDouble);
  const at::Tensor exponent =
      at::arange(0, options.head_size, 2, as_double) / static_cast<double>(options.head_size);
  const at::Tensor frequency =
      at::pow(at::full({}, options.rotary_base, as_double), exponent.neg());
  const at::Tensor angle = at::outer(at::arange(options.max_sequence, as_double), frequency);
  return at::cat({angle, angle}, -1);
}

}  // namespace

std::vector<mesh::Segment> qkv_segments(std::int64_t num_heads, std::int64_t num_query_groups,
                                        std::int64_t head_size, int ranks) {
  const int kv_pieces = static_cast<int>(std::min<std::int64_t>(num_query_groups, ranks));
  return {{num_heads * head_size, ranks},
          {num_query_groups * head_size, kv_pieces},
          {num_query_groups * head_size, kv_pieces}};
}

Attention::Attention(const BuildContext& context, const AttentionOptions& options)
    : options_(options),
      tensor_rank_(context.tensor.rank()),
      local_heads_(options.num_heads / context.tensor.size()),
      local_groups_(std::max<std::int64_t>(1, options.num_query_groups / context.tensor.size())),
      qkv_(context, qkv_options(options),
           qkv_segments(options.num_heads, options.num_query_groups, options.head_size,
                        context.tensor.size())),
      proj_(context, proj_options(options)) {
  if (options.rotary_base > 0) {
    const at::Tensor angle_TD = rotary_angles(options);
    cos_TD_ = angle_TD.cos().to(context.params_dtype);
    sin_TD_ = angle_TD.sin().to(context.params_dtype);
  }
}

at::Tensor Attention::rotate(const at::Tensor& x_BNTD) const {
  if (!cos_TD_.defined()) return x_BNTD;
  const std::int64_t length = x_BNTD.size(2);
  const at::Tensor cos_TD = cos_TD_.narrow(0, 0, length);
  const at::Tensor sin_TD = sin_TD_.narrow(0, 0, length);
  const auto halves = x_BNTD.chunk(2, -1);
  const at::Tensor turned_BNTD = at::cat({halves[1].neg(), halves[0]}, -1);
  return (x_BNTD * cos_TD + turned_BNTD * sin_TD).to(x_BNTD.scalar_type());
}

// [B, N, T, T]: of each head, each query's weights of the keys up to it.
at::Tensor Attention::probabilities(const at::Tensor& q_BNTD, const at::Tensor& k_BNTD) const {
  const std::int64_t length = q_BNTD.size(2);
  const double scale = 1.0 / std::sqrt(static_cast<double>(options_.head_size));
  const double infinity = std::numeric_limits<double>::infinity();
  const at::Tensor future_TT = at::full({length, length}, -infinity, q_BNTD.options()).triu_(1);
  // In place, which is cheaper than a mask of booleans. The future is zeroed before it becomes
  // -inf, so that a key that is not finite stays unseen by those before it.
  return (q_BNTD * scale).matmul(k_BNTD.transpose(-2, -1)).tril_().add_(future_TT).softmax(-1);
}

at::Tensor Attention::attend(const at::Tensor& q_BNTD, const at::Tensor& k_BNTD,
                             const at::Tensor& v_BNTD, const ForwardContext& context) const {
  if (options_.dropout == 0.0 || !context.is_training) {
    const at::Tensor y_BNTD =
        at::scaled_dot_product_attention(q_BNTD, k_BNTD, v_BNTD, {}, 0.0, /*is_causal=*/true);
    // y = probabilities @ v, of which the fused operator keeps no probabilities.
    if (context.tracer.armed()) {
      const auto make = [v_BNTD](const at::Tensor& gradient_BNTD, at::ScalarType dtype) {
        const at::Tensor rows_BNTD = v_BNTD.narrow(0, 0, gradient_BNTD.size(0));
        return gradient_BNTD.to(dtype).matmul(rows_BNTD.to(dtype).transpose(2, 3));
      };
      show_gradient(y_BNTD, context, make);
    }
    return y_BNTD;
  }
  const std::int64_t length = q_BNTD.size(2);
  const at::Tensor probability_BNTT = probabilities(q_BNTD, k_BNTD);
  show_gradient(probability_BNTT, context, [](const at::Tensor& gradient, at::ScalarType dtype) {
    return gradient.to(dtype);
  });
  std::vector<std::int64_t> streams;
  for (std::int64_t row = 0; row < q_BNTD.size(0); ++row) {
    for (std::int64_t head = 0; head < local_heads_; ++head) {
      streams.push_back((context.first_row + row) * options_.num_heads +
                        tensor_rank_ * local_heads_ + head);
    }
  }
  const std::uint64_t key =
      base::mix(base::mix(context.seed, base::hash_of(options_.name + ".dropout")),
                static_cast<std::uint64_t>(context.step));
  const at::Tensor keep_BNTT = dropout_factors(key, streams, length * length, options_.dropout)
                                   .view(probability_BNTT.sizes())
                                   .to(probability_BNTT.scalar_type());
  return (probability_BNTT * keep_BNTT).matmul(v_BNTD);
}

// To programs and to the tracer; attention itself does not use them.
void Attention::show_probabilities(const at::Tensor& q_BNTD, const at::Tensor& k_BNTD,
                                   const ForwardContext& context) const {
  constexpr auto kPoint = trace::PointFlag::kRawAttentionScore;
  if (context.hooks != nullptr && context.hooks->reads(kPoint, options_.layer)) {
    context.place(kPoint, options_.layer, probabilities(q_BNTD, k_BNTD));
  }
  if (!context.tracer.armed()) return;
  const std::int64_t rows = context.tracer.rows_wanted(kPoint, options_.layer, q_BNTD.size(0));
  if (rows == 0) return;
  const auto dtype = q_BNTD.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const std::int64_t length = q_BNTD.size(2);
  context.tracer.capture_derived(kPoint, options_.layer, {rows, q_BNTD.size(1), length, length},
                                 dtype, [&] {
                                   return probabilities(q_BNTD.narrow(0, 0, rows).to(dtype),
                                                        k_BNTD.narrow(0, 0, rows).to(dtype));
                                 });
}

// The gradient of the probabilities, which `make` computes from the first rows of that of `from`,
// to the tracer.
void Attention::show_gradient(const at::Tensor& from_BNTX, const ForwardContext& context,
                              const MakeGradient& make) const {
  const std::int64_t rows = context.tracer.rows_wanted(
      trace::PointFlag::kRawAttentionScore, options_.layer, from_BNTX.size(0), /*gradient=*/true);
  if (rows == 0) return;
  const auto dtype = from_BNTX.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const std::int64_t length = from_BNTX.size(2);
  context.tracer.capture_derived_gradient(trace::PointFlag::kRawAttentionScore, options_.layer,
                                          {{rows, from_BNTX.size(1), length, length},
                                           dtype,
                                           from_BNTX,
                                           [rows, dtype, make](const at::Tensor& gradient) {
                                             return make(gradient.narrow(0, 0, rows), dtype);
                                           }});
}

at::Tensor Attention::forward(const at::Tensor& x, const ForwardContext& context) const {
  const int layer = options_.layer;
  const at::Tensor qkv_weight = context.place(trace::PointFlag::kQkvWeight, layer, qkv_.weight());
  const at::Tensor qkv = context.point(trace::PointFlag::kQkv, layer, qkv_.forward(x, qkv_weight));
  const std::int64_t batch = x.size(0);
  const std::int64_t length = x.size(1);
  const std::int64_t size = options_.head_size;
  // One split: its gradient is one concatenation, where narrow's is a sum of zero-filled copies.
  const auto parts =
      qkv.split_with_sizes({local_heads_ * size, local_groups_ * size, local_groups_ * size}, -1);
  // Outputs of one node get their gradients together, programs want them one after the other.
  const auto own = [&](const at::Tensor& part) {
    return context.hooks != nullptr && part.requires_grad() ? part.view_as(part) : part;
  };
  const at::Tensor q = context.point(trace::PointFlag::kQuery, layer, own(parts[0]));
  const at::Tensor k = context.point(trace::PointFlag::kKey, layer, own(parts[1]));
  const at::Tensor v = context.point(trace::PointFlag::kValue, layer, own(parts[2]));
  const auto heads_of = [&](const at::Tensor& part) {
    return part.view({batch, length, -1, size}).transpose(1, 2);
  };
  // Every query group serves as many neighbouring heads.
  const auto for_each_head = [&](const at::Tensor& x_BGTD) {
    const std::int64_t repeat = local_heads_ / local_groups_;
    if (repeat == 1) return x_BGTD;
    return x_BGTD.unsqueeze(2)
        .expand({batch, local_groups_, repeat, length, size})
        .reshape({batch, local_heads_, length, size});
  };
  const at::Tensor q_BNTD = rotate(heads_of(q));
  const at::Tensor k_BNTD = for_each_head(rotate(heads_of(k)));
  const at::Tensor v_BNTD = for_each_head(heads_of(v));
  show_probabilities(q_BNTD, k_BNTD, context);
  const at::Tensor y = context.point(trace::PointFlag::kContextLayer, layer,
                                     attend(q_BNTD, k_BNTD, v_BNTD, context)
                                         .transpose(1, 2)
                                         .reshape({batch, length, local_heads_ * size}));
  const at::Tensor weight = context.place(trace::PointFlag::kProjWeight, layer, proj_.weight());
  return context.point(trace::PointFlag::kAttentionOutput, layer, proj_.forward(y, weight));
}

std::vector<Parameter> Attention::parameters() const {
  std::vector<Parameter> all = qkv_.parameters();
  for (Parameter& parameter : proj_.parameters()) all.push_back(std::move(parameter));
  return all;
}

}  // namespace tt::nn
