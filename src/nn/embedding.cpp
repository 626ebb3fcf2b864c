#include "tensor_tracer/nn/embedding.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

// Shapes: B batch, T sequence, H hidden.

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

// Rows of the main weights are rounded after the lookup: the numbers are those of the parameter,
// and the gradient of a row, a sum over tokens, is not rounded at each term.
at::Tensor VocabParallelEmbedding::forward(const at::Tensor& tokens_BT) const {
  if (group_.size() == 1) return at::embedding(weight_.local, tokens_BT).to(dtype_);
  const at::Tensor local_BT = tokens_BT - first_token_;
  const at::Tensor foreign_BT = (local_BT < 0).logical_or_(local_BT >= weight_.local.size(0));
  const at::Tensor rows_BTH = at::embedding(weight_.local, local_BT.masked_fill(foreign_BT, 0))
                                  .masked_fill(foreign_BT.unsqueeze(-1), 0);
  return ReduceFromTensorParallel::apply(rows_BTH, group_).to(dtype_);
}

}  // namespace tt::nn
