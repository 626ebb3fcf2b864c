#include "tensor_tracer/nn/mlp.h"

#include <ATen/ATen.h>

// Shapes: [batch, sequence, features] throughout.

namespace tt::nn {
namespace {

enum : std::size_t { kMlpFc1, kMlpActivation, kMlpOutput, kNumMlpPlaces };

}  // namespace

std::vector<mesh::Segment> fc1_segments(std::int64_t ffn_hidden_size, bool swiglu, int ranks) {
  return std::vector<mesh::Segment>(swiglu ? 2 : 1, {ffn_hidden_size, ranks});
}

Mlp::Mlp(const BuildContext& context, const MlpOptions& options)
    : options_(options),
      fc1_(context,
           {options.name + ".fc1", options.hidden_size,
            (options.swiglu ? 2 : 1) * options.ffn_hidden_size, options.bias, options.init_std},
           fc1_segments(options.ffn_hidden_size, options.swiglu, context.tensor_ranks())),
      fc2_(context, {options.name + ".fc2", options.ffn_hidden_size, options.hidden_size,
                     options.bias, options.output_init_std}),
      tensor_ranks_(context.tensor_ranks()),
      places_(kNumMlpPlaces) {}

void Mlp::declare(points::PlaceTableBuilder& places) {
  const std::string bias = options_.bias ? "included" : "none";
  const auto fc1 = fc1_segments(options_.ffn_hidden_size, options_.swiglu, tensor_ranks_);
  fc1_.declare(places, "mlp.fc1", "Fc1Weight");
  places_[kMlpFc1] =
      places.add(sharded({.name = "MLP1",
                          .path = "mlp.fc1",
                          .text = options_.swiglu ? "gate and up projections, before the activation"
                                                  : "first MLP product, before the activation",
                          .bias = bias,
                          .legacy_flag = 4},
                         fc1, tensor_ranks_));
  places.add_alias(places_[kMlpFc1], "mlp.fc1.output");
  places_[kMlpActivation] = places.add(
      sharded({.name = "MLPActivation",
               .path = "mlp.activation",
               .text = options_.swiglu ? "silu(gate) times up"
                                       : "GELU, in its tanh form, of the first MLP product",
               .bias = "not applicable"},
              {fc1[0]}, tensor_ranks_));
  places.add_alias(places_[kMlpActivation], "mlp.fc2.input");
  fc2_.declare(places, "mlp.fc2", "Fc2Weight");
  places_[kMlpOutput] =
      places.add(replicated({.name = "MLP2",
                             .path = "mlp.output",
                             .text = "output of the MLP, before the residual is added",
                             .bias = bias,
                             .legacy_flag = 5},
                            options_.hidden_size));
  places.add_alias(places_[kMlpOutput], "mlp.fc2.output");
}

at::Tensor Mlp::forward(const at::Tensor& x, const ForwardContext& context) const {
  const at::Tensor inner = context.point(places_[kMlpFc1], fc1_.forward(x, context));
  at::Tensor active;
  if (options_.swiglu) {
    const auto parts = inner.chunk(2, -1);
    active = at::silu(parts[0]) * parts[1];
  } else {
    active = at::gelu(inner, "tanh");
  }
  active = context.point(places_[kMlpActivation], active);
  return context.point(places_[kMlpOutput], fc2_.forward(active, context));
}

std::vector<Parameter> Mlp::parameters() const {
  std::vector<Parameter> all = fc1_.parameters();
  for (Parameter& parameter : fc2_.parameters()) all.push_back(std::move(parameter));
  return all;
}

}  // namespace tt::nn
