#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/data/batches.h"
#include "tensor_tracer/nn/parameter.h"
#include "tensor_tracer/train/groups.h"

namespace tt::train {

/// The weights before the update, the gradients before clipping, and the whole global batch of one
/// step.
struct ExportedStep {
  std::int64_t step = 0;
  double loss = 0.0;
  const data::Batch& batch;  // every row
  const config::ModelConfig& model;
  const std::vector<nn::Parameter>& parameters;
};

/// Writes <folder>/step_<number>.safetensors with the full logical tensors weight/<name> and
/// grad/<name>, tokens and labels, the same on every mesh. Collective; the status is the same on
/// every rank.
base::Status write_export(const std::string& folder, const ExportedStep& exported,
                          const Groups& groups);

}  // namespace tt::train
