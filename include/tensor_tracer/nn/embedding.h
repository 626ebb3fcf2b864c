#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tensor_tracer/nn/parameter.h"

namespace tt::nn {

/// An embedding table [vocabulary, hidden], sharded along the vocabulary. Each rank gives zeros for
/// tokens of other ranks; the ranks' partial sums are added.
class VocabParallelEmbedding {
 public:
  VocabParallelEmbedding(const BuildContext& context, const std::string& name,
                         std::int64_t vocab_size, std::int64_t hidden_size, double init_std);
  /// tokens int64 [batch, sequence] -> [batch, sequence, hidden] in the compute dtype.
  at::Tensor forward(const at::Tensor& tokens) const;
  const Parameter& weight() const { return weight_; }
  std::vector<Parameter> parameters() const { return {weight_}; }

 private:
  comm::ProcessGroup group_;
  at::ScalarType dtype_;
  Parameter weight_;
  std::int64_t first_token_ = 0;
};

/// The first token of this rank's shard of the vocabulary.
std::int64_t first_local_token(std::int64_t vocab_size, const comm::ProcessGroup& group);

}  // namespace tt::nn
