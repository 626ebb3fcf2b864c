#pragma once

#include <cstdint>
#include <string>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/config/option.h"

namespace tt::config {

/// How a model continues a text. The names and the order of the steps (temperature, top-k, top-p)
/// are those of `transformers`.
struct SamplingConfig {
  std::int64_t max_new_tokens = 64;
  double temperature = 0.0;  // the logits are divided by it; 0: the token with the largest logit
  std::int64_t top_k = 0;    // only the k best tokens; 0: all
  double top_p = 1.0;        // only the best tokens that reach this probability together
};

/// The rows of `sampling`, which must outlive them. `prefix`: of their flags, such as "--".
Options sampling_options(SamplingConfig& sampling, const std::string& prefix);

/// Error: an option needs a temperature above 0.
base::Status check_sampling(const SamplingConfig& sampling, const std::string& prefix);

}  // namespace tt::config
