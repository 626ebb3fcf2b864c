#pragma once

#include <memory>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/model/gpt.h"
#include "tensor_tracer/train/checkpoints.h"

namespace tt::train {

/// The model of one rank, which is not trained: its weights have the dtype of activations. Error:
/// that of load_weights(), on this rank only. REQUIRES: config passed config::check. Thread: any.
base::Result<std::unique_ptr<model::Gpt>> load_model(const config::TrainConfig& config,
                                                     const WeightStores& stores,
                                                     const comm::ProcessGroup& tensor);

}  // namespace tt::train
