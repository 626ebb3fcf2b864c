#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "src/cli/model_path.h"
#include "tensor_tracer/base/result.h"
#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/hf/model.h"

namespace tt::cli {

/// Reads the options that a resumed run must keep from the manifest of a checkpoint. Error, with
/// the code "damaged": the manifest has no options, or they describe no model.
base::Result<config::TrainConfig> options_of_checkpoint(const ModelPath& checkpoint);

/// The folder of Hugging Face that the run began from, if it is still there and has the same model;
/// else `path` is empty and `config` is null.
hf::ModelFolder first_model_of(const ModelPath& checkpoint, const config::ModelConfig& model);

/// The folder of the run's tokenizer. Empty if the run used bytes, or if the files were removed or
/// changed; then `notice` gets the reason.
std::string tokenizer_folder_of(const ModelPath& checkpoint, std::string& notice);

}  // namespace tt::cli
