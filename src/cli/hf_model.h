#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/cli/run_tokenizer.h"
#include "tensor_tracer/base/result.h"
#include "tensor_tracer/checkpoint/tensor_store.h"
#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/hf/model.h"

namespace tt::cli {

/// The model and the adapters that a run begins from. On ranks other than 0 only the
/// configurations.
struct ModelSource {
  hf::ModelFolder folder;       // of --hf-model; without config: a new model
  nlohmann::json adapter = {};  // adapter_config.json of --load-adapter; null: none
  std::string adapter_folder = {};
};

/// Reads the folders of --hf-model and --load-adapter, and sets the options of the model by their
/// configurations. `given`: the options as the user wrote them, by name. Error: that of a folder,
/// or a given option that contradicts it. Global rank 0.
base::Result<ModelSource> read_hf_model(config::TrainConfig& config, const nlohmann::json& given);

/// Sets the tokens that end a response: those of the model's folder, or of a new model the token
/// after each text. Error: that of the folder. Global rank 0.
base::Status read_stop_ids(const ModelSource& source, RunTokenizer& tokenizer);

/// Gives every rank the configurations that rank 0 read, and sets the options of the model by them.
/// Collective over `world`.
void share_hf_model(ModelSource& source, config::ModelConfig& model,
                    const comm::ProcessGroup& world);

/// The tensors of the folders, with a tensor for each parameter of the model, and a notice on
/// tensors that are not used.
struct HfWeights {
  std::shared_ptr<const checkpoint::TensorStore> weights, adapters;  // null: none
  std::string notice;                                                // empty: none
};

/// Opens the files on every rank. Error: a rank sees other files, or a tensor is missing or has
/// another shape than config.json says; the same on all ranks. Collective over `world`.
base::Result<HfWeights> open_hf_weights(ModelSource& source, const config::ModelConfig& model,
                                        const comm::ProcessGroup& world);

}  // namespace tt::cli
