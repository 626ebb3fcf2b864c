#include "tensor_tracer/nn/mlp.h"

#include <ATen/ATen.h>

// Shapes: [batch, sequence, features] throughout.

namespace tt::nn {
namespace {

enum : std::size_t { kMlpFc1, kMlpActivation, kMlpOutput, kNumMlpPlaces };

// The inner columns; with SwiGLU gate, then up.
std::vector<mesh::Segment> fc1_segments(const config::ModelConfig& config, int ranks) {
  return std::vector<mesh::Segment>(config.swiglu ? 2 : 1, {config.ffn_size(), ranks});
}

at::Tensor activate(const at::Tensor& x, const std::string& activation) {
  if (activation == "relu") return at::relu(x);
  if (activation == "silu") return at::silu(x);
  return at::gelu(x, activation == "gelu_tanh" ? "tanh" : "none");
}

// The text of the place.
std::string describe_activation(const config::ModelConfig& config) {
  if (config.swiglu) return "silu(gate) times up";
  if (config.activation == "gelu_tanh") return "GELU, in its tanh form, of the first MLP product";
  return config.activation + " of the first MLP product";
}

}  // namespace

Mlp::Mlp(const BuildContext& context, const config::ModelConfig& config, const std::string& name)
    : config_(config),
      fc1_(context,
           {name + ".fc1", config.hidden_size, (config.swiglu ? 2 : 1) * config.ffn_size(),
            config.has_mlp_bias(), config.init_method_std},
           fc1_segments(config, context.tensor_ranks())),
      fc2_(context, {name + ".fc2", config.ffn_size(), config.hidden_size, config.has_mlp_bias(),
                     residual_init_std(config)}),
      tensor_ranks_(context.tensor_ranks()),
      places_(kNumMlpPlaces) {
  std::vector<AdapterTarget> targets = {{"fc1", name + ".fc1", 0, config.swiglu ? 2U : 1U}};
  if (config.swiglu) {
    targets.push_back({"gate", name + ".gate", 0, 1});
    targets.push_back({"up", name + ".up", 1, 1});
  }
  fc1_.add_adapters(context, config, targets);
  fc2_.add_adapters(context, config, {{"fc2", name + ".fc2", 0, 1}});
}

std::vector<LowRank> Mlp::adapters() const {
  std::vector<LowRank> all = fc1_.adapters();
  all.insert(all.end(), fc2_.adapters().begin(), fc2_.adapters().end());
  return all;
}

void Mlp::declare(points::PlaceTableBuilder& places) {
  const std::string bias = config_.has_mlp_bias() ? "included" : "none";
  const auto fc1 = fc1_segments(config_, tensor_ranks_);
  fc1_.declare(places, "mlp.fc1", "Fc1Weight");
  places_[kMlpFc1] =
      places.add(sharded({.name = "MLP1",
                          .path = "mlp.fc1",
                          .text = config_.swiglu ? "gate and up projections, before the activation"
                                                 : "first MLP product, before the activation",
                          .bias = bias,
                          .legacy_flag = 4},
                         fc1, tensor_ranks_));
  places.add_alias(places_[kMlpFc1], "mlp.fc1.output");
  places_[kMlpActivation] = places.add(sharded({.name = "MLPActivation",
                                                .path = "mlp.activation",
                                                .text = describe_activation(config_),
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
                            config_.hidden_size));
  places.add_alias(places_[kMlpOutput], "mlp.fc2.output");
}

at::Tensor Mlp::forward(const at::Tensor& x, const ForwardContext& context) const {
  const at::Tensor inner = context.point(places_[kMlpFc1], fc1_.forward(x, context));
  at::Tensor active;
  if (config_.swiglu) {
    const auto parts = inner.chunk(2, -1);
    active = at::silu(parts[0]) * parts[1];
  } else {
    active = activate(inner, config_.activation);
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
