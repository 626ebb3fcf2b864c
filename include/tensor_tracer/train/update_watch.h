#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/nn/parameter.h"
#include "tensor_tracer/optim/adamw.h"
#include "tensor_tracer/trace/tracer.h"

namespace tt::train {

/// Measures weights, gradients, updates and Adam's moments of every parameter for the trace point
/// "Updates" (model::kUpdateColumns), in the steps in which the plan traces it. The weights of
/// bfloat16 parameters are their main weights. Every number of the full model counts once, on every
/// mesh. Other steps cost one look at the plan. Thread: the thread that runs the step.
class UpdateWatch {
 public:
  /// All arguments outlive the object. `tensor`: the tensor axis.
  UpdateWatch(const std::vector<nn::Parameter>& parameters, const comm::ProcessGroup& tensor,
              const optim::AdamW& optimizer, trace::Tracer& tracer);

  /// Call it between the reduction of the gradients and their clipping. In a traced step it copies
  /// the weights.
  void before_update(std::int64_t step);
  /// Call it after the optimizer's step. In a traced step it sends the record. Collective along
  /// the tensor axis.
  void after_update(std::int64_t step);

 private:
  at::Tensor table() const;
  double owned_sum(const at::Tensor& local, const nn::Parameter& parameter, bool squares) const;

  const std::vector<nn::Parameter>& parameters_;
  const comm::ProcessGroup& tensor_;
  const optim::AdamW& optimizer_;
  trace::Tracer& tracer_;
  const std::optional<points::PlaceKey> place_;
  std::vector<at::Tensor> before_;        // weights; empty: the step is not traced
  std::vector<double> gradient_squares_;  // of this rank, before clipping
};

}  // namespace tt::train
