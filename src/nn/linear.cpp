#include "tensor_tracer/nn/linear.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

// Shapes: N rows (batch × sequence), I in features, O out features; of the local shard.

namespace tt::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

enum : std::size_t { kLinearWeight, kLinearBias, kNumLinearPlaces };

// Which of the two ends of the product is a sum over ranks.
enum class SumOver : std::int64_t { kInputGradient, kOutput };

at::Tensor rows_of(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

// Both products own what they sum, so the sum over ranks is done in place.
class ParallelProduct : public torch::autograd::Function<ParallelProduct> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight_OI,
                            const std::optional<at::Tensor>& bias_O,
                            const comm::ProcessGroup& group, SumOver sum) {
    // A bias that is the same on all ranks goes into the sum once; its gradient is everybody's.
    const bool adds_bias = sum == SumOver::kInputGradient || group.rank() == 0;
    at::Tensor y = at::linear(x, weight_OI, adds_bias ? bias_O : std::nullopt);
    if (sum == SumOver::kOutput) group.all_reduce(y);
    ctx->save_for_backward({x, weight_OI});
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
    const at::Tensor dweight = at::mm(dy_NO.t(), rows_of(saved[0]));
    const at::Tensor dbias = ctx->saved_data["has_bias"].toBool() ? dy_NO.sum(0) : at::Tensor();
    return {dx, dweight, dbias, at::Tensor(), at::Tensor()};
  }
};

std::optional<Parameter> make_bias(const BuildContext& context, const LinearOptions& options,
                                   const mesh::Placement& placement) {
  if (!options.bias) return std::nullopt;
  return make_parameter(context, options.name + ".bias", {options.out_features}, placement,
                        Init::kZeros);
}

std::vector<Parameter> list(const Parameter& weight, const std::optional<Parameter>& bias) {
  std::vector<Parameter> all = {weight};
  if (bias) all.push_back(*bias);
  return all;
}

}  // namespace

ColumnParallelLinear::ColumnParallelLinear(const BuildContext& context,
                                           const LinearOptions& options,
                                           const std::vector<mesh::Segment>& segments)
    : group_(context.tensor),
      dtype_(context.compute_dtype),
      weight_(make_parameter(context, options.name + ".weight",
                             {options.out_features, options.in_features},
                             mesh::Placement::shard(0, segments), Init::kNormal, options.init_std)),
      bias_(make_bias(context, options, mesh::Placement::shard(0, segments))),
      places_(kNumLinearPlaces) {}

void ColumnParallelLinear::declare(points::PlaceTableBuilder& places, const std::string& path,
                                   const std::string& weight_name) {
  places_[kLinearWeight] = nn::declare(places, weight_, path + ".weight", weight_name);
  if (bias_) places_[kLinearBias] = nn::declare(places, *bias_, path + ".bias");
}

at::Tensor ColumnParallelLinear::forward(const at::Tensor& x, const ForwardContext& context) const {
  const at::Tensor weight = context.intervene(places_[kLinearWeight], in_dtype(weight_, dtype_));
  std::optional<at::Tensor> bias;
  if (bias_) bias = context.intervene(places_[kLinearBias], in_dtype(*bias_, dtype_));
  return ParallelProduct::apply(x, weight, bias, group_, SumOver::kInputGradient);
}

std::vector<Parameter> ColumnParallelLinear::parameters() const { return list(weight_, bias_); }

RowParallelLinear::RowParallelLinear(const BuildContext& context, const LinearOptions& options)
    : group_(context.tensor),
      dtype_(context.compute_dtype),
      weight_(make_parameter(
          context, options.name + ".weight", {options.out_features, options.in_features},
          mesh::Placement::shard(1, {{options.in_features, context.tensor_ranks()}}), Init::kNormal,
          options.init_std)),
      bias_(make_bias(context, options, mesh::Placement::replicate())),
      places_(kNumLinearPlaces) {}

void RowParallelLinear::declare(points::PlaceTableBuilder& places, const std::string& path,
                                const std::string& weight_name) {
  places_[kLinearWeight] = nn::declare(places, weight_, path + ".weight", weight_name);
  if (bias_) places_[kLinearBias] = nn::declare(places, *bias_, path + ".bias");
}

at::Tensor RowParallelLinear::forward(const at::Tensor& x, const ForwardContext& context) const {
  const at::Tensor weight = context.intervene(places_[kLinearWeight], in_dtype(weight_, dtype_));
  std::optional<at::Tensor> bias;
  if (bias_) bias = context.intervene(places_[kLinearBias], in_dtype(*bias_, dtype_));
  return ParallelProduct::apply(x, weight, bias, group_, SumOver::kOutput);
}

std::vector<Parameter> RowParallelLinear::parameters() const { return list(weight_, bias_); }

at::Tensor column_parallel_matmul(const at::Tensor& x, const at::Tensor& weight,
                                  const comm::ProcessGroup& group) {
  return ParallelProduct::apply(x, weight, std::optional<at::Tensor>(), group,
                                SumOver::kInputGradient);
}

}  // namespace tt::nn
