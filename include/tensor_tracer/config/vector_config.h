#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/config/option.h"
#include "tensor_tracer/config/train_config.h"

namespace tt::config {

/// The options of `tensor-tracer vector extract` that a training run does not have.
struct ExtractConfig {
  std::string positive, negative;  // files of texts
  std::string out;                 // .pt or .safetensors
  std::vector<std::string> kinds = {"response"};
  bool include_first_token = false;
  double held_out = 0.2;  // share of the texts
  bool force = false;
  bool json = false;
};

/// The table of the options: rows of train_options(run), and more. The rows point into `run` and
/// `extract`, which must outlive them. --batch-size is run.micro_batch_size.
Options extract_options(TrainConfig& run, ExtractConfig& extract);

/// Checks the values of the options, and that the model, the texts and the file are named. The
/// error names the flag.
base::Status check(const TrainConfig& run, const ExtractConfig& extract);

/// The options of `tensor-tracer vector score` that a training run does not have.
struct ScoreConfig {
  std::string vectors;                  // a file
  std::string name;                     // of the vector in it; empty: the only one
  std::optional<int> layer;             // unset: the best layer that the file names
  std::string base_responses = "none";  // a file; or "generate"
  std::int64_t max_new_tokens = 128;    // of a response that is generated
  std::string drop_top;                 // "5%", or a number of texts; empty: none
  std::string out;                      // .jsonl
  bool include_first_token = false;
  bool force = false;
  bool json = false;
};

/// As extract_options(). The file of texts is not an option.
Options score_options(TrainConfig& run, ScoreConfig& score);

/// Checks the values of the options, and that the model, the vector and the file are named.
base::Status check(const TrainConfig& run, const ScoreConfig& score);

/// The number of texts that --drop-top drops of `size`, rounded to the nearest. Nothing if the text
/// is neither a share from 0% to 100% nor a number.
std::optional<std::int64_t> parse_drop_top(const std::string& text, std::int64_t size);

}  // namespace tt::config
