#include "src/train/finite_check.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "tensor_tracer/comm/collectives.h"

namespace tt::train {
namespace {

constexpr std::int64_t kNothing = std::numeric_limits<std::int64_t>::max();

std::string name_of(const points::Place& place, const points::PlaceKey& key) {
  if (!place.in_layers()) return place.path;
  return "layers[" + std::to_string(key.layer) + "]." + place.path;
}

}  // namespace

FiniteCheck::FiniteCheck(std::shared_ptr<const points::PlaceTable> places)
    : places_(std::move(places)),
      acts_everywhere_(std::make_unique<bool[]>(places_->num_keys())),
      found_at_(kNothing) {
  std::fill_n(acts_everywhere_.get(), places_->num_keys(), true);
  acts_ = acts_everywhere_.get();
}

trace::InterventionPass* FiniteCheck::after(trace::InterventionPass* programs) {
  programs_ = programs;
  return this;
}

at::Tensor FiniteCheck::at_point(const points::PlaceKey& place, const at::Tensor& given) {
  at::Tensor local = given;
  if (programs_ != nullptr && programs_->acts_at(place)) local = programs_->at_point(place, given);
  const auto name = [this, place] { return name_of(places_->rows()[place.row], place); };
  look(local, name);
  // A hook on a parameter would stay.
  if (local.requires_grad() && !local.is_leaf()) {
    local.register_hook([this, name](const at::Tensor& gradient) {
      look(
          gradient, [&] { return "the gradient of " + name(); });
    });
  }
  return local;
}

void FiniteCheck::look_at_gradients(const std::vector<nn::Parameter>& parameters) {
  for (const nn::Parameter& parameter : parameters)
    look(
        parameter.local.grad(), [&] { return "the gradient of " + parameter.name; });
}

void FiniteCheck::look_at_weights(const std::vector<nn::Parameter>& parameters) {
  for (const nn::Parameter& parameter : parameters)
    look(
        parameter.local, [&] { return "the weight " + parameter.name; });
}

void FiniteCheck::look(const at::Tensor& values, const std::function<std::string()>& name) {
  ++calls_;
  if (found_at_ != kNothing || !values.defined() || !values.is_floating_point()) return;
  const at::NoGradGuard no_grad;
  if (at::isfinite(values).all().item<bool>()) return;
  found_at_ = calls_;
  found_ = name();
}

std::optional<std::string> FiniteCheck::first_finding(const comm::ProcessGroup& world) const {
  const auto options = at::device(at::kCPU).dtype(at::kLong);
  at::Tensor all = at::empty({world.size()}, options);
  world.all_gather(at::full({1}, found_at_, options), all);
  const auto first = all.argmin().item<std::int64_t>();
  if (all[first].item<std::int64_t>() == kNothing) return std::nullopt;
  std::string found = found_;
  comm::broadcast_text(world, found, static_cast<int>(first));
  return found + " on rank " + std::to_string(first);
}

}  // namespace tt::train
