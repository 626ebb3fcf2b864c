#include "tensor_tracer/optim/adamw.h"

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

namespace tt::optim {

AdamW::AdamW(std::vector<at::Tensor> parameters, const AdamWOptions& options)
    : options_(options), groups_(2) {
  groups_[0].weight_decay = options.weight_decay;
  for (at::Tensor& parameter : parameters) {
    Group& group = groups_[parameter.dim() >= 2 ? 0 : 1];
    const at::Tensor values = parameter.detach();
    group.first_moments.push_back(at::zeros_like(values));
    group.second_moments.push_back(at::zeros_like(values));
    group.steps.push_back(at::zeros({}, at::device(at::kCPU).dtype(at::kFloat)));
    group.parameters.push_back(std::move(parameter));
  }
}

void AdamW::step(double lr) {
  const at::NoGradGuard no_grad;
  for (Group& group : groups_) step(group, lr);
}

void AdamW::step(Group& group, double lr) const {
  std::vector<at::Tensor> parameters, gradients, first, second, steps;
  for (std::size_t i = 0; i < group.parameters.size(); ++i) {
    if (!group.parameters[i].grad().defined()) continue;
    parameters.push_back(group.parameters[i]);
    gradients.push_back(group.parameters[i].grad());
    first.push_back(group.first_moments[i]);
    second.push_back(group.second_moments[i]);
    steps.push_back(group.steps[i]);
  }
  if (parameters.empty()) return;
  at::_foreach_add_(steps, 1);
  at::_fused_adamw_(parameters, gradients, first, second, /*max_exp_avg_sqs=*/{}, steps, lr,
                    options_.beta1, options_.beta2, group.weight_decay, options_.eps,
                    /*amsgrad=*/false, /*maximize=*/false);
}

double LrSchedule::at(std::int64_t step) const {
  if (step <= warmup_steps) {
    return max_lr * static_cast<double>(step) / static_cast<double>(warmup_steps);
  }
  if (step >= decay_steps) return min_lr;
  const double done =
      static_cast<double>(step - warmup_steps) / static_cast<double>(decay_steps - warmup_steps);
  return min_lr + 0.5 * (max_lr - min_lr) * (1.0 + std::cos(std::numbers::pi * done));
}

}  // namespace tt::optim
