#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/config/option.h"
#include "tensor_tracer/config/sampling_config.h"
#include "tensor_tracer/config/train_config.h"

namespace tt::config {

/// The options of `tensor-tracer generate` that a training run does not have.
struct GenerateConfig {
  std::vector<std::string> prompt;  // texts
  std::string prompts;              // file: lines of text, or JSONL
  SamplingConfig sampling;
  bool ignore_eos = false;
  std::string output;           // JSONL file; empty: the terminal
  std::int64_t top_logits = 0;  // in the output, of each token
};

/// The table of the options of `tensor-tracer generate`: rows of train_options(run), and more. The
/// rows point into `run` and `generate`, which must outlive them. --batch-size is
/// run.micro_batch_size.
Options generate_options(TrainConfig& run, GenerateConfig& generate);

/// Checks the values of the options, and that there are a model and prompts. The error names the
/// flag.
base::Status check(const TrainConfig& run, const GenerateConfig& generate);

}  // namespace tt::config
