#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace tt::optim {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;  // of tensors with two dims or more
};

/// AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101) by libtorch's fused kernel. A parameter
/// without a gradient is left alone. Thread: one.
class AdamW {
 public:
  AdamW(std::vector<at::Tensor> parameters, const AdamWOptions& options);
  /// Updates every parameter in place from its .grad().
  void step(double lr);

 private:
  struct Group {
    std::vector<at::Tensor> parameters, first_moments, second_moments, steps;
    double weight_decay = 0.0;
  };
  void step(Group& group, double lr) const;

  AdamWOptions options_;
  std::vector<Group> groups_;
};

/// Learning rate of step `step`, from 1: linear warm-up, then cosine down to `min_lr`, as in
/// Megatron-LM.
struct LrSchedule {
  double max_lr = 0.0;
  double min_lr = 0.0;
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 1;
  double at(std::int64_t step) const;
};

}  // namespace tt::optim
