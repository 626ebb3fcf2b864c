#include "tensor_tracer/train/gradients.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

#include "tensor_tracer/comm/collectives.h"

namespace tt::train {

std::vector<at::Tensor> owned_parts(const at::Tensor& local, const mesh::Placement& placement,
                                    const comm::ProcessGroup& tensor) {
  if (!placement.is_sharded())
    return tensor.rank() == 0 ? std::vector<at::Tensor>{local} : std::vector<at::Tensor>{};
  std::vector<at::Tensor> parts;
  for (const auto& interval : mesh::intervals_of_rank(placement, tensor.rank(), tensor.size())) {
    if (interval.owner != tensor.rank()) continue;
    parts.push_back(
        local.narrow(placement.dim, interval.local_begin, interval.end - interval.begin));
  }
  return parts;
}

GradientReducer::GradientReducer(std::vector<nn::Parameter> parameters,
                                 const comm::ProcessGroup& tensor, const comm::ProcessGroup& data)
    : parameters_(std::move(parameters)), tensor_(tensor), data_(data) {
  std::map<int, comm::ProcessGroup> holders;  // by chunks
  for (const nn::Parameter& parameter : parameters_) {
    const auto& placement = parameter.placement;
    if (!placement.is_sharded()) continue;
    const auto intervals = mesh::intervals_of_rank(placement, tensor_.rank(), tensor_.size());
    for (std::size_t i = 0; i < intervals.size(); ++i) {
      const mesh::Segment& segment = placement.segments[i];
      if (segment.chunks == tensor_.size()) continue;
      // With fewer chunks than ranks, several ranks hold copies of a chunk.
      if (!holders.contains(segment.chunks)) {
        const int color = tensor_.rank() / (tensor_.size() / segment.chunks);
        holders[segment.chunks] = tensor_.split(color, tensor_.rank(), "copies");
      }
      copied_.push_back({parameter.local, placement.dim, intervals[i].local_begin,
                         intervals[i].end - intervals[i].begin, holders[segment.chunks]});
    }
  }
}

void GradientReducer::reduce() const {
  const at::NoGradGuard no_grad;
  for (const nn::Parameter& parameter : parameters_) {
    at::Tensor& gradient = parameter.local.mutable_grad();
    if (!gradient.defined()) gradient = at::zeros_like(parameter.local);
  }
  for (const nn::Parameter& parameter : parameters_)
    if (parameter.has_partial_gradient) tensor_.all_reduce(parameter.local.mutable_grad());
  for (const Copied& part : copied_) {
    at::Tensor shared = part.parameter.grad().narrow(part.dim, part.begin, part.size);
    at::Tensor sum = shared.contiguous();
    part.holders.all_reduce(sum);
    shared.copy_(sum);
  }
  if (data_.size() == 1) return;
  for (const nn::Parameter& parameter : parameters_) {
    at::Tensor gradient = parameter.local.grad();
    if (!gradient.is_contiguous()) {
      gradient = gradient.contiguous();
      parameter.local.mutable_grad() = gradient;
    }
    data_.all_reduce(gradient);
  }
}

double GradientReducer::squared_norm(const nn::Parameter& parameter) const {
  double sum = 0.0;
  for (const at::Tensor& part : owned_parts(parameter.local.grad(), parameter.placement, tensor_)) {
    const double norm = at::linalg_vector_norm(part).item<double>();
    sum += norm * norm;
  }
  return sum;
}

double GradientReducer::norm() const {
  const at::NoGradGuard no_grad;
  double sum = 0.0;
  for (const nn::Parameter& parameter : parameters_) sum += squared_norm(parameter);
  return std::sqrt(comm::sum_over(tensor_, sum));
}

bool GradientReducer::are_copies_finite() const {
  const at::NoGradGuard no_grad;
  return std::ranges::all_of(parameters_, [&](const nn::Parameter& parameter) {
    const at::Tensor gradient = parameter.local.grad();
    std::int64_t owned = 0;
    for (const at::Tensor& part : owned_parts(gradient, parameter.placement, tensor_))
      owned += part.numel();
    return owned == gradient.numel() ||
           std::isfinite(at::linalg_vector_norm(gradient).item<double>());
  });
}

void GradientReducer::clip(double norm, double max_norm) const {
  const double coefficient = max_norm / (norm + 1e-6);
  if (coefficient >= 1.0) return;
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (const nn::Parameter& parameter : parameters_) gradients.push_back(parameter.local.grad());
  at::_foreach_mul_(gradients, coefficient);
}

void GradientReducer::zero() const {
  for (const nn::Parameter& parameter : parameters_) parameter.local.mutable_grad() = at::Tensor();
}

}  // namespace tt::train
