#pragma once

#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/nn/low_rank.h"
#include "tensor_tracer/train/groups.h"
#include "tensor_tracer/train/trainer.h"

namespace tt::train {

/// Writes the adapters as a folder of PEFT, which appears when it is complete. Error: of rank 0's
/// file system. Collective over all ranks.
base::Status write_adapters(const AdapterFolder& folder, const config::ModelConfig& model,
                            const std::vector<nn::LowRank>& adapters, const Groups& groups);

}  // namespace tt::train
