#include "tensor_tracer/nn/embedding.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

// Shapes: B batch, T sequence, N tokens (B × T), H hidden, V local vocabulary.

namespace tt::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Sum over ranks in the forward pass, identity in the backward pass.
class ReduceFromTensorParallel : public torch::autograd::Function<ReduceFromTensorParallel> {
 public:
  static at::Tensor forward(AutogradContext*, const at::Tensor& x,
                            const comm::ProcessGroup& group) {
    at::Tensor sum = x.clone();
    group.all_reduce(sum);
    return sum;
  }
  static variable_list backward(AutogradContext*, const variable_list& gradients) {
    return {gradients[0], at::Tensor()};
  }
};

class CrossEntropy : public torch::autograd::Function<CrossEntropy> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& logits_NV,
                            const at::Tensor& labels_N, std::int64_t first_token,
                            const comm::ProcessGroup& group, const LossMask& mask) {
    const at::ScalarType dtype = logits_NV.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    at::Tensor max_N = std::get<0>(logits_NV.max(-1)).to(dtype);
    group.all_reduce(max_N, comm::ReduceOp::kMax);
    at::Tensor exp_NV = (logits_NV.to(dtype) - max_N.unsqueeze(-1));
    const at::Tensor local_N = labels_N - first_token;
    const at::Tensor foreign_N = (local_N < 0).logical_or_(local_N >= logits_NV.size(-1));
    const at::Tensor index_N1 = local_N.masked_fill(foreign_N, 0).unsqueeze_(-1);
    at::Tensor sums_2N = at::empty({2, labels_N.size(0)}, exp_NV.options());
    sums_2N[1].copy_(exp_NV.gather(-1, index_N1).squeeze(-1).masked_fill_(foreign_N, 0));
    exp_NV.exp_();
    at::Tensor total_N = sums_2N[0];
    at::sum_out(total_N, exp_NV, -1);
    group.all_reduce(sums_2N);
    ctx->save_for_backward({exp_NV, total_N, index_N1, foreign_N, mask.counted});
    ctx->saved_data["divisor"] = mask.divisor;
    const at::Tensor loss_N = total_N.log() - sums_2N[1];
    if (!mask.counted.defined()) return loss_N.mean();
    return loss_N.masked_fill(mask.counted.logical_not(), 0.0).sum() / mask.divisor;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor& exp_NV = saved[0];
    const at::Tensor& counted_N = saved[4];
    // A scalar, or by token.
    const at::Tensor scale =
        counted_N.defined() ? counted_N * (gradients[0] / ctx->saved_data["divisor"].toDouble())
                            : gradients[0] / exp_NV.size(0);
    at::Tensor dlogits_NV = exp_NV * (scale / saved[1]).unsqueeze(-1);
    const at::Tensor one_N1 =
        at::zeros_like(saved[1]).sub_(scale).masked_fill_(saved[3], 0).unsqueeze_(-1);
    dlogits_NV.scatter_add_(-1, saved[2], one_N1);
    return {dlogits_NV, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

std::int64_t first_local_token(std::int64_t vocab_size, const comm::ProcessGroup& group) {
  return vocab_size * group.rank() / group.size();
}

VocabParallelEmbedding::VocabParallelEmbedding(const BuildContext& context, const std::string& name,
                                               std::int64_t vocab_size, std::int64_t hidden_size,
                                               double init_std)
    : group_(context.tensor),
      dtype_(context.compute_dtype),
      weight_(make_parameter(context, name + ".weight", {vocab_size, hidden_size},
                             mesh::Placement::shard(0, {{vocab_size, context.tensor_ranks()}}),
                             Init::kNormal, init_std)),
      first_token_(first_local_token(vocab_size, group_)) {}

at::Tensor VocabParallelEmbedding::forward(const at::Tensor& tokens_BT) const {
  if (group_.size() == 1) return at::embedding(weight_.local, tokens_BT).to(dtype_);
  const at::Tensor local_BT = tokens_BT - first_token_;
  const at::Tensor foreign_BT = (local_BT < 0).logical_or_(local_BT >= weight_.local.size(0));
  const at::Tensor rows_BTH = at::embedding(weight_.local, local_BT.masked_fill(foreign_BT, 0))
                                  .masked_fill(foreign_BT.unsqueeze(-1), 0);
  return ReduceFromTensorParallel::apply(rows_BTH, group_).to(dtype_);
}

at::Tensor vocab_parallel_cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                                        std::int64_t first_token, const comm::ProcessGroup& group,
                                        const LossMask& mask) {
  return CrossEntropy::apply(logits, labels, first_token, group, mask);
}

}  // namespace tt::nn
