#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "tensor_tracer/data/prompted_texts.h"
#include "tensor_tracer/model/gpt.h"
#include "tensor_tracer/train/groups.h"
#include "tensor_tracer/vectors/text_spreader.h"

namespace tt::vectors {

struct ProjectionOptions {
  bool includes_first_token = false;  // of each text
  std::int64_t row = 0;               // of the hidden states, from 0, the embedding
  std::int64_t most_tokens = 1;       // of a text; what is behind them is cut off
  std::int64_t batch_size = 1;        // texts of a replica that run together
  /// Changes texts before they run; empty: they run as they are. All ranks of a replica call it
  /// with the same texts.
  std::function<void(std::vector<NumberedText>&)> change = {};
};

/// The mean hidden state of each text over its response, projected on `direction` (float64
/// [hidden]) divided by its length. NaN: no token of the response counts. `texts`: at the first
/// text; null on ranks other than 0. `size`: number of texts. `on_text`: as Extraction. Throws as
/// Extraction::run(). Collective over all ranks; only global rank 0 gets the numbers.
std::vector<double> project_responses(const model::Gpt& model, const train::Groups& groups,
                                      data::PromptedTexts* texts, std::int64_t size,
                                      const at::Tensor& direction, const ProjectionOptions& options,
                                      const std::function<void()>& on_text);

}  // namespace tt::vectors
