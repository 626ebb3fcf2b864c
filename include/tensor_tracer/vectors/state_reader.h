#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tensor_tracer/data/prompted_texts.h"
#include "tensor_tracer/model/gpt.h"

namespace tt::vectors {

class HiddenMeans;

/// The mean hidden states of texts, over the tokens of each kind (kinds.h).
struct StateMeans {
  at::Tensor states;  // float64 [texts, kinds, rows, hidden]; zeros where there is no token
  at::Tensor counts;  // float64 [texts, kinds]: tokens
};

/// Runs texts through a model. Rows as HiddenMeans; the sums are in float64. Thread: the thread
/// that runs the model.
class StateReader {
 public:
  /// `model` outlives the reader. `includes_first`: the first token of a text is one of its tokens;
  /// often its state is so large that it hides the others. `keeps`: false: read() runs the model
  /// and returns nothing, as the other ranks of the tensor axis need it.
  StateReader(const model::Gpt& model, bool includes_first, bool keeps);
  ~StateReader();

  /// Texts run together, in one batch; each has a token. Collective along the tensor axis.
  StateMeans read(const std::vector<const data::PromptedText*>& texts) const;

 private:
  const model::Gpt& model_;
  const bool includes_first_;
  const std::unique_ptr<HiddenMeans> means_;  // null: nothing is kept
};

}  // namespace tt::vectors
