#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/checkpoint/tensor_store.h"
#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/hf/model.h"

namespace tt::cli {

/// Reads the folder of --hf-model, and sets the options of the model by its config.json. `given`:
/// the options as the user wrote them, by name. Error: that of the folder, or a given option that
/// contradicts config.json. Global rank 0.
base::Result<hf::ModelFolder> read_hf_model(config::TrainConfig& config,
                                            const nlohmann::json& given);

/// Gives every rank the config.json that rank 0 read, and sets the options of the model by it.
/// Nothing happens if rank 0 read none. Collective over `world`.
void share_hf_model(hf::ModelFolder& folder, config::ModelConfig& model,
                    const comm::ProcessGroup& world);

/// The weights of the folder, with a tensor for each parameter of the model, and a notice on
/// tensors that are not used.
struct HfWeights {
  std::shared_ptr<const checkpoint::TensorStore> store;
  std::string notice;  // empty: none
};

/// Opens the files on every rank. Error: a rank sees other files, or a tensor is missing or has
/// another shape than config.json says; the same on all ranks. Collective over `world`.
base::Result<HfWeights> open_hf_weights(hf::ModelFolder& folder, const config::ModelConfig& model,
                                        const comm::ProcessGroup& world);

/// The config.json of --save-hf: that of the model that the run began from, or a new one. Error: no
/// family has the model, or the folder is not empty; a resumed run may replace a model there.
base::Result<nlohmann::json> prepare_hf_save(const config::TrainConfig& config,
                                             const hf::ModelFolder& from);

}  // namespace tt::cli
