#include "tensor_tracer/optim/adamw.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <numbers>

namespace tt::optim {

AdamW::AdamW(std::vector<at::Tensor> parameters, const config::OptimizerConfig& config)
    : config_(config), groups_(2) {
  groups_[0].weight_decay = config.weight_decay;
  for (at::Tensor& parameter : parameters) {
    Group& group = groups_[parameter.dim() >= 2 ? 0 : 1];
    const at::Tensor values = parameter.detach();
    group.first_moments.push_back(at::zeros_like(values));
    group.second_moments.push_back(at::zeros_like(values));
    group.steps.push_back(at::zeros({}, at::device(at::kCPU).dtype(at::kFloat)));
    group.parameters.push_back(std::move(parameter));
    moments_.push_back(
        {group.first_moments.back(), group.second_moments.back(), group.steps.back()});
  }
}

AdamW::Moments AdamW::moments(std::size_t parameter) const { return moments_.at(parameter); }

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
                    config_.adam_beta1, config_.adam_beta2, group.weight_decay, config_.adam_eps,
                    /*amsgrad=*/false, /*maximize=*/false);
}

double learning_rate(const config::TrainConfig& config, std::int64_t step) {
  const config::OptimizerConfig& optimizer = config.optimizer;
  const std::int64_t warmup = optimizer.lr_warmup_iters;
  if (step <= warmup) return optimizer.lr * static_cast<double>(step) / static_cast<double>(warmup);
  const std::int64_t decay =
      optimizer.lr_decay_iters > 0 ? optimizer.lr_decay_iters : config.train_iters;
  const double last = optimizer.last_lr();
  if (step >= decay) return last;
  const double done = static_cast<double>(step - warmup) / static_cast<double>(decay - warmup);
  return last + 0.5 * (optimizer.lr - last) * (1.0 + std::cos(std::numbers::pi * done));
}

}  // namespace tt::optim
