#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/cli/hf_model.h"
#include "src/cli/model_path.h"
#include "src/cli/run_tokenizer.h"
#include "tensor_tracer/base/result.h"
#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/model/gpt.h"

namespace tt::cli {

/// A model that a command runs and does not train: that of --hf-model, with the adapters of
/// --load-adapter, or that of a checkpoint, --load.
struct ModelToRun {
  ModelSource source;      // of --hf-model
  ModelPath checkpoint;    // of --load, on rank 0
  RunTokenizer tokenizer;  // on rank 0
  std::vector<std::string> notices = {};
};

/// Reads the configuration and the tokenizer, and sets the options of the model. --seq-length is
/// not known yet: set_sequence_length(). `given`: the options as the user wrote them, by name.
/// Error: that of the files, or a damaged checkpoint. Global rank 0, before MPI starts.
base::Result<ModelToRun> read_model_to_run(config::TrainConfig& config,
                                           const nlohmann::json& given);

/// The largest number of tokens that the model can take.
std::int64_t most_tokens(const config::ModelConfig& model);

/// Sets --seq-length. Error: the family has no such length. Global rank 0. REQUIRES: `length` is at
/// most most_tokens().
base::Status set_sequence_length(const ModelToRun& model, std::int64_t length,
                                 config::TrainConfig& config);

/// A model with its weights, on one rank.
struct LoadedModel {
  std::unique_ptr<model::Gpt> model;
  std::string fingerprint;  // SHA-256 of its options and of samples of its files, in hex
};

/// Gives every rank the options that rank 0 read, and loads the weights. `tensor`: ranks that share
/// each layer. Error: a rank sees other files, or a tensor is missing; the same on all ranks.
/// Collective over `world`.
base::Result<LoadedModel> load_model_to_run(ModelToRun& model, config::TrainConfig& config,
                                            const comm::ProcessGroup& tensor,
                                            const comm::ProcessGroup& world);

}  // namespace tt::cli
