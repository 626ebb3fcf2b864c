#pragma once

#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/nn/low_rank.h"
#include "tensor_tracer/nn/parameter.h"
#include "tensor_tracer/train/groups.h"
#include "tensor_tracer/train/hf_writer.h"

namespace tt::train {

/// Writes the model as a folder of Hugging Face, in the dtype of the parameters, with the adapters
/// added to the weights. The folder appears when it is complete. Error: of rank 0's file system.
/// Collective over all ranks.
base::Status write_hf(HfFolder folder, const config::ModelConfig& model,
                      const std::vector<nn::Parameter>& parameters,
                      const std::vector<nn::LowRank>& adapters, const Groups& groups);

}  // namespace tt::train
