#include "tensor_tracer/nn/mlp.h"

#include <ATen/ATen.h>

// Shapes: [batch, sequence, features] throughout.

namespace tt::nn {

std::vector<mesh::Segment> fc1_segments(std::int64_t ffn_hidden_size, bool swiglu, int ranks) {
  return std::vector<mesh::Segment>(swiglu ? 2 : 1, {ffn_hidden_size, ranks});
}

Mlp::Mlp(const BuildContext& context, const MlpOptions& options)
    : options_(options),
      fc1_(context,
           {options.name + ".fc1", options.hidden_size,
            (options.swiglu ? 2 : 1) * options.ffn_hidden_size, options.bias, options.init_std},
           fc1_segments(options.ffn_hidden_size, options.swiglu, context.tensor.size())),
      fc2_(context, {options.name + ".fc2", options.ffn_hidden_size, options.hidden_size,
                     options.bias, options.output_init_std}) {}

at::Tensor Mlp::forward(const at::Tensor& x, const ForwardContext& context) const {
  const int layer = options_.layer;
  const at::Tensor fc1 = context.place(trace::PointFlag::kFc1Weight, layer, fc1_.weight());
  const at::Tensor inner = context.point(trace::PointFlag::kMlp1, layer, fc1_.forward(x, fc1));
  at::Tensor active;
  if (options_.swiglu) {
    const auto parts = inner.chunk(2, -1);
    active = at::silu(parts[0]) * parts[1];
  } else {
    active = at::gelu(inner, "tanh");
  }
  active = context.point(trace::PointFlag::kMlpActivation, layer, active);
  const at::Tensor fc2 = context.place(trace::PointFlag::kFc2Weight, layer, fc2_.weight());
  return context.point(trace::PointFlag::kMlp2, layer, fc2_.forward(active, fc2));
}

std::vector<Parameter> Mlp::parameters() const {
  std::vector<Parameter> all = fc1_.parameters();
  for (Parameter& parameter : fc2_.parameters()) all.push_back(std::move(parameter));
  return all;
}

}  // namespace tt::nn
