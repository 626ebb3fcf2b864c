#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/nn/parameter.h"

namespace tt::train {

/// The parts of `local` whose numbers count on this rank, so that every number of the full model
/// counts once. `local` has the shape of the parameter's shard.
std::vector<at::Tensor> owned_parts(const at::Tensor& local, const mesh::Placement& placement,
                                    const comm::ProcessGroup& tensor);

/// Reduces and clips the gradients of one rank's parameters, between the last backward pass and the
/// optimizer. The gradients of bfloat16 parameters are in their main weights, in float32. Thread:
/// the thread that runs the step.
class GradientReducer {
 public:
  /// Collective over both groups.
  GradientReducer(std::vector<nn::Parameter> parameters, const comm::ProcessGroup& tensor,
                  const comm::ProcessGroup& data);

  /// Sets missing gradients to zero, as in skipped layers. Sums the gradients of chunks of which
  /// several tensor ranks hold copies (keys and values with fewer groups than ranks), then sums
  /// over data replicas.
  void reduce() const;

  /// Euclidean norm of the gradients of the full model; every number counts once. The same bits on
  /// every rank.
  double norm() const;

  /// False: a gradient of this rank that norm() takes from another rank, because both have the
  /// same, is not finite here.
  bool are_copies_finite() const;

  /// Multiplies every gradient by min(1, max_norm / (norm + 1e-6)), as PyTorch does.
  void clip(double norm, double max_norm) const;

  void zero() const;

 private:
  struct Copied {
    at::Tensor parameter;
    int dim = 0;
    std::int64_t begin = 0, size = 0;  // local
    comm::ProcessGroup holders;
  };
  double squared_norm(const nn::Parameter& parameter) const;

  std::vector<nn::Parameter> parameters_;
  comm::ProcessGroup tensor_;
  comm::ProcessGroup data_;
  std::vector<Copied> copied_;
};

}  // namespace tt::train
