#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor_tracer/config/train_config.h"

namespace tt::optim {

/// AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101) by libtorch's fused kernel. Weight decay
/// applies to tensors with two or more dims. A parameter without a gradient does not change.
/// Thread: one.
class AdamW {
 public:
  /// `parameters`: float32 or float64; of bfloat16 parameters the main weights.
  AdamW(std::vector<at::Tensor> parameters, const config::OptimizerConfig& config);
  /// Updates every parameter in place from its .grad().
  void step(double lr);
  /// Adam's running means of the gradient and of its square, and the number of updates, a float32
  /// tensor without dims, of the parameter with this index in the constructor's list. Writes to
  /// them change the optimizer.
  struct Moments {
    at::Tensor first, second, updates;
  };
  Moments moments(std::size_t parameter) const;

 private:
  struct Group {
    std::vector<at::Tensor> parameters, first_moments, second_moments, steps;
    double weight_decay = 0.0;
  };
  void step(Group& group, double lr) const;

  config::OptimizerConfig config_;
  std::vector<Group> groups_;
  std::vector<Moments> moments_;  // by index of the parameter
};

/// Learning rate of step `step`, from 1: linear warm-up, then cosine decay to the last rate
/// (OptimizerConfig::last_lr), as in Megatron-LM.
double learning_rate(const config::TrainConfig& config, std::int64_t step);

}  // namespace tt::optim
