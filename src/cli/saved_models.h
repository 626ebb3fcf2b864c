#pragma once

#include <nlohmann/json.hpp>

#include "src/cli/hf_model.h"
#include "tensor_tracer/base/result.h"
#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/train/trainer.h"

namespace tt::cli {

/// The folders that a run writes at its end.
struct SavedModels {
  train::HfFolder model;
  train::AdapterFolder adapters;
};

/// Their configurations: those of the model that the run began from, or new ones. `former`: the
/// options of the run that a resumed run continues; null: a new run. Error: no family has the model
/// or the adapters, or a folder cannot be written, is used for something else, or is not empty; a
/// resumed run replaces the folder that the former run wrote. Global rank 0.
base::Result<SavedModels> prepare_saves(const config::TrainConfig& config,
                                        const ModelSource& source, const nlohmann::json& former);

/// Gives every rank the paths and the configuration of the model. Collective over `world`.
void share_saves(SavedModels& saves, const comm::ProcessGroup& world);

}  // namespace tt::cli
