#include "tensor_tracer/nn/linear.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <optional>
#include <vector>

// Shapes: N rows (batch × sequence), I in features, O out features; of the local shard.

namespace tt::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor rows_of(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

// Both products own their results, so the sum over ranks is done in place.
class ParallelProduct : public torch::autograd::Function<ParallelProduct> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight_OI,
                            const std::optional<at::Tensor>& bias_O,
                            const comm::ProcessGroup& group, SumOver sum) {
    // A bias that is the same on all ranks is added to the sum once. Every rank computes the same
    // gradient of it.
    const bool adds_bias = sum == SumOver::kInputGradient || group.rank() == 0;
    at::Tensor y = at::linear(x, weight_OI, adds_bias ? bias_O : std::nullopt);
    if (sum == SumOver::kOutput) group.all_reduce(y);
    // Only the gradient of the weight needs x.
    ctx->save_for_backward({weight_OI.requires_grad() ? x : at::Tensor(), weight_OI});
    ctx->saved_data["has_bias"] = bias_O.has_value();
    // The layer owns the group and outlives the step's graph.
    ctx->saved_data["group"] =
        reinterpret_cast<std::int64_t>(sum == SumOver::kInputGradient ? &group : nullptr);
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor& weight_OI = saved[1];
    const at::Tensor dy = gradients[0].contiguous();
    const at::Tensor dy_NO = rows_of(dy);
    at::Tensor dx;
    if (ctx->needs_input_grad(0)) {
      dx = at::matmul(dy, weight_OI);
      const auto* group =
          reinterpret_cast<const comm::ProcessGroup*>(ctx->saved_data["group"].toInt());
      if (group != nullptr) group->all_reduce(dx);
    }
    at::Tensor dweight;
    if (ctx->needs_input_grad(1)) dweight = at::mm(dy_NO.t(), rows_of(saved[0]));
    const at::Tensor dbias = ctx->saved_data["has_bias"].toBool() ? dy_NO.sum(0) : at::Tensor();
    return {dx, dweight, dbias, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

double residual_init_std(const config::ModelConfig& config) {
  return config.init_method_std / std::sqrt(2.0 * static_cast<double>(config.num_layers));
}

ParallelLinear::ParallelLinear(const BuildContext& context, const LinearOptions& options,
                               const mesh::Placement& weight, const mesh::Placement& bias,
                               SumOver sum)
    : AffineLayer(context, options.name, {options.out_features, options.in_features}, weight,
                  Init::kNormal, options.init_std,
                  options.bias ? std::optional(bias) : std::nullopt),
      site_{options.name, options.in_features, options.out_features, weight},
      group_(context.tensor),
      sum_(sum) {}

at::Tensor ParallelLinear::forward(const at::Tensor& x, const ForwardContext& context) const {
  // Keep the order of declare(): each of the two calls runs a place.
  const at::Tensor weight_OI = weight(context);
  const std::optional<at::Tensor> bias_O = bias(context);
  const at::Tensor y = ParallelProduct::apply(x, weight_OI, bias_O, group_, sum_);
  return adapters_.empty() ? y : adapted(y, x);
}

// Adapters are in the order of their columns, which do not overlap.
at::Tensor ParallelLinear::adapted(const at::Tensor& y, const at::Tensor& x) const {
  std::vector<at::Tensor> parts;
  std::int64_t done = 0;
  for (const LowRank& adapter : adapters_) {
    const auto [begin, size] = adapter.columns();
    if (begin > done) parts.push_back(y.narrow(-1, done, begin - done));
    parts.push_back(y.narrow(-1, begin, size) + adapter.forward(x));
    done = begin + size;
  }
  if (done < y.size(-1)) parts.push_back(y.narrow(-1, done, y.size(-1) - done));
  return parts.size() == 1 ? parts.front() : at::cat(parts, -1);
}

void ParallelLinear::add_adapters(const BuildContext& context, const config::ModelConfig& config,
                                  const std::vector<AdapterTarget>& targets) {
  adapters_ = make_adapters(context, config, site_, targets);
}

std::vector<Parameter> ParallelLinear::parameters() const {
  std::vector<Parameter> all = AffineLayer::parameters();
  for (const LowRank& adapter : adapters_) {
    all.push_back(adapter.a());
    all.push_back(adapter.b());
  }
  return all;
}

ColumnParallelLinear::ColumnParallelLinear(const BuildContext& context,
                                           const LinearOptions& options,
                                           const std::vector<mesh::Segment>& segments)
    : ParallelLinear(context, options, mesh::Placement::shard(0, segments),
                     mesh::Placement::shard(0, segments), SumOver::kInputGradient) {}

RowParallelLinear::RowParallelLinear(const BuildContext& context, const LinearOptions& options)
    : ParallelLinear(context, options,
                     mesh::Placement::shard(1, {{options.in_features, context.tensor_ranks()}}),
                     mesh::Placement::replicate(), SumOver::kOutput) {}

at::Tensor row_parallel_matmul(const at::Tensor& x, const at::Tensor& weight,
                               const comm::ProcessGroup& group) {
  return ParallelProduct::apply(x, weight, std::optional<at::Tensor>(), group, SumOver::kOutput);
}

at::Tensor column_parallel_matmul(const at::Tensor& x, const at::Tensor& weight,
                                  const comm::ProcessGroup& group) {
  return ParallelProduct::apply(x, weight, std::optional<at::Tensor>(), group,
                                SumOver::kInputGradient);
}

}  // namespace tt::nn
