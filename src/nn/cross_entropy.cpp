#include "tensor_tracer/nn/cross_entropy.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>
#include <vector>

// Shapes: N tokens, C tokens of a chunk, H hidden, V local vocabulary.

namespace tt::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kLogitsOfChunk = std::int64_t{1} << 24;

at::ScalarType loss_dtype(const at::Tensor& logits) {
  return at::toOpMathType(logits.scalar_type());
}

at::Tensor token_rows(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

// Calls `act` with the first token of each chunk and the number of its tokens.
template <typename Act>
void for_each_chunk(std::int64_t tokens, std::int64_t chunk_size, const Act& act) {
  for (std::int64_t first = 0; first < tokens; first += chunk_size)
    act(first, std::min(chunk_size, tokens - first));
}

// Of each token: the largest logit, the sum of exp(logit − largest), the loss.
struct TokenSums {
  at::Tensor max_N, total_N, loss_N;

  TokenSums part(std::int64_t first, std::int64_t count) const {
    return {max_N.narrow(0, first, count), total_N.narrow(0, first, count),
            loss_N.narrow(0, first, count)};
  }
};

TokenSums empty_sums(std::int64_t tokens, const at::TensorOptions& options) {
  const auto empty = [&] { return at::empty({tokens}, options); };
  return {empty(), empty(), empty()};
}

// The columns of a chunk's labels on this rank.
struct LabelColumns {
  at::Tensor index_C1;   // 0 for the labels of other ranks
  at::Tensor foreign_C;  // true for these
};

LabelColumns columns_of(const at::Tensor& labels_C, std::int64_t first_token, std::int64_t width) {
  const at::Tensor local_C = labels_C - first_token;
  const at::Tensor foreign_C = (local_C < 0).logical_or_(local_C >= width);
  return {local_C.masked_fill(foreign_C, 0).unsqueeze_(-1), foreign_C};
}

// Replaces the logits of a chunk by exp(logit − largest), and writes the chunk's sums.
void exponentiate(at::Tensor& logits_CV, const LabelColumns& columns,
                  const comm::ProcessGroup& group, const TokenSums& sums) {
  at::Tensor max_C = std::get<0>(logits_CV.max(-1));
  group.all_reduce(max_C, comm::ReduceOp::kMax);
  logits_CV.sub_(max_C.unsqueeze(-1));
  at::Tensor both_2C = at::empty({2, max_C.size(0)}, max_C.options());
  both_2C[1].copy_(
      logits_CV.gather(-1, columns.index_C1).squeeze(-1).masked_fill_(columns.foreign_C, 0));
  logits_CV.exp_();
  at::Tensor total_C = both_2C[0];
  at::sum_out(total_C, logits_CV, -1);
  group.all_reduce(both_2C);
  sums.max_N.copy_(max_C);
  sums.total_N.copy_(total_C);
  sums.loss_N.copy_(total_C.log() - both_2C[1]);
}

// Replaces exp(logit − largest) by the gradient of the logit. `scale`: the gradient of the loss of
// each token.
void to_gradient(at::Tensor& exp_CV, const LabelColumns& columns, const at::Tensor& total_C,
                 const at::Tensor& scale) {
  exp_CV.mul_((scale / total_C).unsqueeze(-1));
  const at::Tensor one_C1 =
      at::zeros_like(total_C).sub_(scale).masked_fill_(columns.foreign_C, 0).unsqueeze_(-1);
  exp_CV.scatter_add_(-1, columns.index_C1, one_C1);
}

at::Tensor sum_up(const at::Tensor& loss_N, const LossMask& mask) {
  if (!mask.counted.defined()) return loss_N.mean();
  return loss_N.masked_fill(mask.counted.logical_not(), 0.0).sum() / mask.divisor;
}

// The gradients of the losses of the tokens: a scalar, or [N] with a mask.
at::Tensor scale_of(const at::Tensor& gradient, std::int64_t tokens, const LossMask& mask) {
  if (!mask.counted.defined()) return gradient / tokens;
  return mask.counted * (gradient / mask.divisor);
}

at::Tensor of_chunk(const at::Tensor& scale, std::int64_t first, std::int64_t count) {
  return scale.dim() == 0 ? scale : scale.narrow(0, first, count);
}

// The local gradients of x and of the weight, from the gradients of the logits of every chunk.
class ProductGradients {
 public:
  // Undefined `dx_NH`: its gradient is not wanted. Undefined `x_NH`: the weight's is not.
  ProductGradients(at::Tensor dx_NH, at::Tensor x_NH, at::Tensor weight_VH)
      : dx_NH_(std::move(dx_NH)), x_NH_(std::move(x_NH)), weight_VH_(std::move(weight_VH)) {}

  bool are_wanted() const { return dx_NH_.defined() || x_NH_.defined(); }

  void add(std::int64_t first, const at::Tensor& dlogits_CV) {
    if (dx_NH_.defined()) {
      at::Tensor dx_CH = dx_NH_.narrow(0, first, dlogits_CV.size(0));
      at::mm_out(dx_CH, dlogits_CV, weight_VH_);
    }
    if (x_NH_.defined()) add_to_weight(dlogits_CV.t(), x_NH_.narrow(0, first, dlogits_CV.size(0)));
  }

  const at::Tensor& dx() const { return dx_NH_; }
  at::Tensor dweight() const {
    return dweight_VH_.defined() ? dweight_VH_.to(weight_VH_.scalar_type()) : at::Tensor();
  }

 private:
  // A sum in bfloat16 would be rounded after every chunk.
  void add_to_weight(const at::Tensor& dlogits_VC, const at::Tensor& x_CH) {
    if (!dweight_VH_.defined())
      dweight_VH_ = at::mm(dlogits_VC, x_CH);
    else if (x_CH.scalar_type() == at::kBFloat16)
      dweight_VH_ = dweight_VH_.to(at::kFloat).add_(at::mm(dlogits_VC, x_CH));
    else
      dweight_VH_.addmm_(dlogits_VC, x_CH);
  }

  at::Tensor dx_NH_, x_NH_, weight_VH_;
  at::Tensor dweight_VH_;
};

class OutputLogits : public torch::autograd::Function<OutputLogits> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight_VH,
                            const VocabularyShard& shard) {
    const at::Tensor x_NH = token_rows(x);
    const std::int64_t tokens = x_NH.size(0);
    at::Tensor logits_NV = at::empty({tokens, weight_VH.size(0)}, x.options());
    // The product gets separate memory: its bits may depend on the alignment.
    for_each_chunk(tokens, shard.chunk_size, [&](std::int64_t first, std::int64_t count) {
      logits_NV.narrow(0, first, count).copy_(at::mm(x_NH.narrow(0, first, count), weight_VH.t()));
    });
    ctx->save_for_backward({weight_VH.requires_grad() ? x : at::Tensor(), weight_VH});
    ctx->saved_data["group"] = reinterpret_cast<std::int64_t>(&shard.group);
    ctx->saved_data["chunk_size"] = shard.chunk_size;
    std::vector<std::int64_t> sizes = x.sizes().vec();
    sizes.back() = weight_VH.size(0);
    return logits_NV.view(sizes);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor& weight_VH = saved[1];
    const at::Tensor dlogits_NV = token_rows(gradients[0]);
    const std::int64_t tokens = dlogits_NV.size(0);
    const bool wants_dx = ctx->needs_input_grad(0);
    std::vector<std::int64_t> sizes = gradients[0].sizes().vec();
    sizes.back() = weight_VH.size(1);
    ProductGradients sums(
        wants_dx ? at::empty({tokens, sizes.back()}, weight_VH.options()) : at::Tensor(),
        ctx->needs_input_grad(1) ? token_rows(saved[0]) : at::Tensor(), weight_VH);
    for_each_chunk(
        tokens, ctx->saved_data["chunk_size"].toInt(), [&](std::int64_t first, std::int64_t count) {
          sums.add(first, dlogits_NV.narrow(0, first, count).clone(at::MemoryFormat::Contiguous));
        });
    if (!wants_dx) return {at::Tensor(), sums.dweight(), at::Tensor()};
    at::Tensor dx_NH = sums.dx();
    reinterpret_cast<const comm::ProcessGroup*>(ctx->saved_data["group"].toInt())
        ->all_reduce(dx_NH);
    return {dx_NH.view(sizes), sums.dweight(), at::Tensor()};
  }
};

class CrossEntropy : public torch::autograd::Function<CrossEntropy> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& logits_NV,
                            const at::Tensor& labels_N, const VocabularyShard& shard,
                            const LossMask& mask) {
    const std::int64_t tokens = logits_NV.size(0), width = logits_NV.size(1);
    const at::ScalarType dtype = loss_dtype(logits_NV);
    const TokenSums sums = empty_sums(tokens, logits_NV.options().dtype(dtype));
    for_each_chunk(tokens, shard.chunk_size, [&](std::int64_t first, std::int64_t count) {
      at::Tensor logits_CV = own_chunk(logits_NV, first, count, dtype);
      exponentiate(logits_CV,
                   columns_of(labels_N.narrow(0, first, count), shard.first_token, width),
                   shard.group, sums.part(first, count));
    });
    ctx->save_for_backward({logits_NV, labels_N, sums.max_N, sums.total_N, mask.counted});
    ctx->saved_data["divisor"] = mask.divisor;
    ctx->saved_data["first_token"] = shard.first_token;
    ctx->saved_data["chunk_size"] = shard.chunk_size;
    return sum_up(sums.loss_N, mask);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &logits_NV = saved[0], &labels_N = saved[1];
    const std::int64_t tokens = logits_NV.size(0), width = logits_NV.size(1);
    const std::int64_t first_token = ctx->saved_data["first_token"].toInt();
    const at::Tensor scale =
        scale_of(gradients[0], tokens, {saved[4], ctx->saved_data["divisor"].toDouble()});
    at::Tensor dlogits_NV = at::empty_like(logits_NV);
    for_each_chunk(
        tokens, ctx->saved_data["chunk_size"].toInt(), [&](std::int64_t first, std::int64_t count) {
          at::Tensor exp_CV = own_chunk(logits_NV, first, count, scale.scalar_type());
          exp_CV.sub_(saved[2].narrow(0, first, count).unsqueeze(-1)).exp_();
          to_gradient(exp_CV, columns_of(labels_N.narrow(0, first, count), first_token, width),
                      saved[3].narrow(0, first, count), of_chunk(scale, first, count));
          dlogits_NV.narrow(0, first, count).copy_(exp_CV);
        });
    return {dlogits_NV, at::Tensor(), at::Tensor(), at::Tensor()};
  }

 private:
  static at::Tensor own_chunk(const at::Tensor& logits_NV, std::int64_t first, std::int64_t count,
                              at::ScalarType dtype) {
    return logits_NV.narrow(0, first, count).to(dtype, /*non_blocking=*/false, /*copy=*/true);
  }
};

class LinearCrossEntropy : public torch::autograd::Function<LinearCrossEntropy> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_NH,
                            const at::Tensor& weight_VH, const at::Tensor& labels_N,
                            const VocabularyShard& shard, const LossMask& mask, double start,
                            const LogitsReader& read, bool has_backward) {
    const std::int64_t tokens = x_NH.size(0), width = weight_VH.size(0);
    const auto options = x_NH.options().dtype(loss_dtype(x_NH));
    const TokenSums sums = empty_sums(tokens, options);
    const at::Tensor gradient = at::full({}, start, options);
    const at::Tensor scale = scale_of(gradient, tokens, mask);
    ProductGradients products(
        has_backward && x_NH.requires_grad() ? at::empty_like(x_NH) : at::Tensor(),
        has_backward && weight_VH.requires_grad() ? x_NH : at::Tensor(), weight_VH);
    const at::Tensor memory_CV =
        at::empty({std::min(shard.chunk_size, tokens), width}, x_NH.options());
    for_each_chunk(tokens, shard.chunk_size, [&](std::int64_t first, std::int64_t count) {
      at::Tensor product_CV = memory_CV.narrow(0, 0, count);
      at::mm_out(product_CV, x_NH.narrow(0, first, count), weight_VH.t());
      if (read) read(first, product_CV);
      at::Tensor logits_CV = product_CV.to(options.dtype());
      const LabelColumns columns =
          columns_of(labels_N.narrow(0, first, count), shard.first_token, width);
      const TokenSums part = sums.part(first, count);
      exponentiate(logits_CV, columns, shard.group, part);
      if (!products.are_wanted()) return;
      to_gradient(logits_CV, columns, part.total_N, of_chunk(scale, first, count));
      products.add(first, logits_CV.to(x_NH.scalar_type()));
    });
    ctx->save_for_backward({products.dx(), products.dweight(), gradient});
    ctx->saved_data["group"] = reinterpret_cast<std::int64_t>(&shard.group);
    return sum_up(sums.loss_N, mask);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor factor = gradients[0] / saved[2];
    at::Tensor dx_NH, dweight_VH = saved[1];
    if (saved[0].defined()) {
      dx_NH = saved[0] * factor;
      reinterpret_cast<const comm::ProcessGroup*>(ctx->saved_data["group"].toInt())
          ->all_reduce(dx_NH);
    }
    if (dweight_VH.defined() && factor.item<double>() != 1.0) dweight_VH = dweight_VH * factor;
    return {dx_NH,        dweight_VH,   at::Tensor(), at::Tensor(),
            at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

std::int64_t loss_chunk_size(std::int64_t requested, std::int64_t vocab_size) {
  return requested > 0 ? requested : std::max<std::int64_t>(1, kLogitsOfChunk / vocab_size);
}

at::Tensor output_logits(const at::Tensor& x, const at::Tensor& weight,
                         const VocabularyShard& shard) {
  return OutputLogits::apply(x, weight, shard);
}

at::Tensor vocab_parallel_cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                                        const VocabularyShard& shard, const LossMask& mask) {
  return CrossEntropy::apply(logits, labels, shard, mask);
}

at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& labels, const VocabularyShard& shard,
                                double start, const LossMask& mask, const LogitsReader& read) {
  return LinearCrossEntropy::apply(x, weight, labels, shard, mask, start, read,
                                   at::GradMode::is_enabled());
}

}  // namespace tt::nn
