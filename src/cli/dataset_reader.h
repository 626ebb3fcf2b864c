#pragma once

#include <string>
#include <vector>

#include "src/cli/run_data.h"
#include "tensor_tracer/base/result.h"
#include "tensor_tracer/config/train_config.h"

namespace tt::cli {

/// Finds the form of the paths and opens their files. Error: they are several datasets, or cannot
/// be read.
base::Result<Dataset> open_dataset(const config::DataPart& part, const config::DataConfig& config);

/// True if rank 0 makes the tokens and sends them to the others: text with a tokenizer, and JSONL.
bool is_sent(const Dataset& dataset, const RunTokenizer& tokenizer);

/// Reads the tokens of a dataset that is not sent. Error: its files contradict each other.
base::Status read_files(Dataset& dataset);

/// Reads the tokens of any dataset and checks them: docs/data.md. Global rank 0.
base::Status read_dataset(Dataset& dataset, const config::TrainConfig& config,
                          const RunTokenizer& tokenizer);

/// Sends the tokens of a dataset from rank 0. Collective.
void send_tokens(Dataset& dataset, const comm::ProcessGroup& world);

}  // namespace tt::cli
