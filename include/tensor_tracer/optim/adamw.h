#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tensor_tracer/config/train_config.h"

namespace tt::optim {

/// AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101) by libtorch's fused kernel. The weight
/// decay is of tensors with two dims or more. A parameter without a gradient is left alone. Thread:
/// one.
class AdamW {
 public:
  AdamW(std::vector<at::Tensor> parameters, const config::OptimizerConfig& config);
  /// Updates every parameter in place from its .grad().
  void step(double lr);

 private:
  struct Group {
    std::vector<at::Tensor> parameters, first_moments, second_moments, steps;
    double weight_decay = 0.0;
  };
  void step(Group& group, double lr) const;

  config::OptimizerConfig config_;
  std::vector<Group> groups_;
};

/// Learning rate of step `step`, from 1: linear warm-up, then cosine down to the last rate, as in
/// Megatron-LM.
double learning_rate(const config::TrainConfig& config, std::int64_t step);

}  // namespace tt::optim
