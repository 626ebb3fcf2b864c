#include "tensor_tracer/nn/parameter.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fnmatch.h>

#include <algorithm>
#include <utility>

#include "tensor_tracer/base/hash.h"
#include "tensor_tracer/comm/shards.h"

namespace tt::nn {

using mesh::Placement;

bool is_adapter(const std::string& name) { return name.find(".lora_") != std::string::npos; }

namespace {

bool is_frozen(const std::string& name, const std::vector<std::string>& patterns) {
  if (is_adapter(name)) return false;
  return std::ranges::any_of(patterns, [&](const std::string& pattern) {
    return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  });
}

}  // namespace

Parameter make_parameter(const BuildContext& context, const std::string& name,
                         const std::vector<std::int64_t>& full_shape, const Placement& placement,
                         Init init, double std) {
  const auto empty_shard = [&](int rank) {
    const std::vector<std::int64_t> local =
        placement.is_sharded()
            ? comm::shard_shape(placement, full_shape, rank, context.tensor_ranks())
            : full_shape;
    return at::empty(local, at::TensorOptions().dtype(context.params_dtype).device(context.device));
  };
  const auto made = [&](at::Tensor local) -> Parameter {
    const bool is_trained = !is_frozen(name, context.frozen);
    return {name, local.set_requires_grad(is_trained), placement, full_shape, false, is_trained};
  };
  if (context.device.is_meta()) return made(empty_shard(0));
  if (context.loads_parameters && !is_adapter(name))
    return made(empty_shard(context.tensor.rank()));
  at::Tensor full = at::zeros(full_shape, at::device(at::kCPU).dtype(at::kFloat));
  if (init == Init::kOnes) full.fill_(1.0);
  if (init == Init::kNormal) {
    full.normal_(0.0, std,
                 at::detail::createCPUGenerator(base::mix(context.seed, base::hash_of(name))));
  }
  at::Tensor local = full;
  if (placement.is_sharded())
    local = comm::take_shard(full, placement, context.tensor.rank(), context.tensor.size());
  return made(local.to(context.params_dtype));
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

at::Tensor AffineLayer::weight() const { return weight_.local.to(dtype_); }

std::optional<at::Tensor> AffineLayer::bias() const {
  if (!bias_) return std::nullopt;
  return bias_->local.to(dtype_);
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
