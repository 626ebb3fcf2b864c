#include "tensor_tracer/config/sampling_config.h"

namespace tt::config {

Options sampling_options(SamplingConfig& sampling, const std::string& prefix) {
  return {
      {prefix + "max-new-tokens", &sampling.max_new_tokens,
       "largest number of tokens of a response", positive()},
      {prefix + "temperature", &sampling.temperature,
       "divide the logits by this number and draw; 0: take the token with the largest logit",
       not_negative()},
      {prefix + "top-k", &sampling.top_k, "draw from the k most probable tokens; 0: from all",
       not_negative()},
      {prefix + "top-p", &sampling.top_p,
       "draw from the most probable tokens that reach this probability together", within(0, 1)}};
}

base::Status check_sampling(const SamplingConfig& sampling, const std::string& prefix) {
  if (sampling.temperature > 0.0 || (sampling.top_k == 0 && sampling.top_p == 1.0)) return {};
  return base::invalid_argument(prefix + (sampling.top_k > 0 ? "top-k" : "top-p"),
                                "at temperature 0 the token with the largest logit is taken",
                                "add " + prefix + "temperature 1");
}

}  // namespace tt::config
