#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "src/cli/model_path.h"
#include "tensor_tracer/base/result.h"
#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/hf/model.h"

namespace tt::cli {

/// The options of the run that saved a checkpoint, from the facts of its manifest: those that a
/// resumed run keeps. Error: the facts have no options, or no model has them; the code is
/// "damaged".
base::Result<config::TrainConfig> options_of_checkpoint(const ModelPath& checkpoint);

/// The folder of Hugging Face that the run began from, if it is still there and has the same model;
/// else `path` is empty and `config` is null.
hf::ModelFolder first_model_of(const ModelPath& checkpoint, const config::ModelConfig& model);

/// The folder of the run's tokenizer. Empty: bytes, or the files are not there any more, or
/// changed. `notice`: gets the reason of the second.
std::string tokenizer_folder_of(const ModelPath& checkpoint, std::string& notice);

}  // namespace tt::cli
