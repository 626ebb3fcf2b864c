#include "tensor_tracer/nn/parameter.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/OpMathType.h>
#include <ATen/core/grad_mode.h>
#include <fnmatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>

#include "tensor_tracer/base/hash.h"
#include "tensor_tracer/comm/shards.h"

namespace tt::nn {

using mesh::Placement;

bool is_adapter(const std::string& name) { return name.find(".lora_") != std::string::npos; }

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool is_frozen(const std::string& name, const std::vector<std::string>& patterns) {
  if (is_adapter(name)) return false;
  return std::ranges::any_of(patterns, [&](const std::string& pattern) {
    return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  });
}

at::Tensor unset_shard(const BuildContext& context, const std::vector<std::int64_t>& full_shape,
                       const Placement& placement, at::ScalarType dtype) {
  const int rank = context.device.is_meta() ? 0 : context.tensor.rank();
  const std::vector<std::int64_t> shape =
      placement.is_sharded()
          ? comm::shard_shape(placement, full_shape, rank, context.tensor_ranks())
          : full_shape;
  return at::empty(shape, at::TensorOptions().dtype(dtype).device(context.device));
}

// In float32.
at::Tensor first_shard(const BuildContext& context, const std::string& name,
                       const std::vector<std::int64_t>& full_shape, const Placement& placement,
                       Init init, double std) {
  at::Tensor full = at::zeros(full_shape, at::device(at::kCPU).dtype(at::kFloat));
  if (init == Init::kOnes) full.fill_(1.0);
  if (init == Init::kNormal) {
    full.normal_(0.0, std,
                 at::detail::createCPUGenerator(base::mix(context.seed, base::hash_of(name))));
  }
  if (!placement.is_sharded()) return full;
  return comm::take_shard(full, placement, context.tensor.rank(), context.tensor.size());
}

// A bfloat16 parameter as a function of its main weight. So the gradients of several uses and of
// several micro-batches add up in float32.
class RoundedWeight : public torch::autograd::Function<RoundedWeight> {
 public:
  static at::Tensor forward(AutogradContext*, const at::Tensor& /*main*/,
                            const at::Tensor& rounded) {
    return rounded.detach();
  }
  static variable_list backward(AutogradContext*, const variable_list& gradients) {
    return {gradients[0].to(at::kFloat), at::Tensor()};
  }
};

}  // namespace

Parameter make_parameter(const BuildContext& context, const std::string& name,
                         const std::vector<std::int64_t>& full_shape, const Placement& placement,
                         Init init, double std) {
  const bool is_trained = !is_frozen(name, context.frozen);
  const bool is_unset = context.device.is_meta() || (context.loads_parameters && !is_adapter(name));
  // Updates are too small for a narrow dtype: an optimizer changes float32 or float64.
  const at::ScalarType dtype =
      is_trained ? at::toOpMathType(context.params_dtype) : context.params_dtype;
  const at::Tensor local =
      is_unset ? unset_shard(context, full_shape, placement, dtype)
               : first_shard(context, name, full_shape, placement, init, std).to(dtype);
  at::Tensor rounded;
  if (dtype != context.params_dtype && !is_adapter(name)) {
    rounded =
        is_unset ? at::empty_like(local, context.params_dtype) : local.to(context.params_dtype);
  }
  return {name,   local.set_requires_grad(is_trained), placement, full_shape, false, is_trained,
          rounded};
}

at::Tensor Parameter::as(at::ScalarType dtype) const {
  return (rounded.defined() ? RoundedWeight::apply(local, rounded) : local).to(dtype);
}

void round_main_weights(const std::vector<Parameter>& parameters) {
  const at::NoGradGuard no_grad;
  for (const Parameter& one : parameters)
    if (one.rounded.defined()) one.rounded.copy_(one.local);
}

points::PlaceKey declare(points::PlaceTableBuilder& places, const Parameter& parameter,
                         const std::string& path, const std::string& name) {
  points::Place place{
      .name = name, .path = path, .text = "parameter, as this forward pass uses it"};
  place.shape = parameter.full_shape;
  place.is_weight = true;
  place.placement = parameter.placement;
  return places.add(std::move(place));
}

points::Place sharded(points::Place place, std::vector<mesh::Segment> segments, int ranks) {
  place.placement = Placement::shard(2, segments);
  place.features = place.placement.full_size();
  for (mesh::Segment& segment : segments) segment.partial = segment.chunks < ranks;
  place.gradient = Placement::shard(2, std::move(segments));
  return place;
}

points::Place replicated(points::Place place, std::int64_t features) {
  place.features = features;
  place.gradient = Placement::replicate();
  return place;
}

points::Place only_traced(points::Place place) {
  place.gradient = std::nullopt;
  place.bias = "not applicable";
  place.writable = place.in_programs = false;
  return place;
}

at::Tensor gather_full(const at::Tensor& local, const Placement& placement,
                       const comm::ProcessGroup& group) {
  at::Tensor full = local.detach();
  if (placement.is_sharded()) full = comm::all_gather_full(full, placement, group);
  return group.rank() == 0 ? full : at::Tensor();
}

AffineLayer::AffineLayer(const BuildContext& context, const std::string& name,
                         const std::vector<std::int64_t>& shape, const Placement& placement,
                         Init init, double std, const std::optional<Placement>& bias)
    : weight_(make_parameter(context, name + ".weight", shape, placement, init, std)),
      dtype_(context.compute_dtype) {
  if (bias) bias_ = make_parameter(context, name + ".bias", {shape[0]}, *bias, Init::kZeros);
}

void AffineLayer::declare(points::PlaceTableBuilder& places, const std::string& path,
                          const std::string& weight_name) {
  weight_place_ = nn::declare(places, weight_, path + ".weight", weight_name);
  if (bias_) bias_place_ = nn::declare(places, *bias_, path + ".bias");
}

at::Tensor AffineLayer::weight(const ForwardContext& context) const {
  return context.intervene(weight_place_, weight());
}

at::Tensor AffineLayer::weight() const { return weight_.as(dtype_); }

std::optional<at::Tensor> AffineLayer::bias() const {
  if (!bias_) return std::nullopt;
  return bias_->as(dtype_);
}

std::optional<at::Tensor> AffineLayer::bias(const ForwardContext& context) const {
  if (!bias_) return std::nullopt;
  return context.intervene(bias_place_, *bias());
}

void AffineLayer::mark_partial_gradients() {
  weight_.has_partial_gradient = true;
  if (bias_) bias_->has_partial_gradient = true;
}

std::vector<Parameter> AffineLayer::parameters() const {
  std::vector<Parameter> all = {weight_};
  if (bias_) all.push_back(*bias_);
  return all;
}

}  // namespace tt::nn
