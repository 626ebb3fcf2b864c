#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <stdexcept>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/config/sampling_config.h"

namespace tt::generate {

/// A text that cannot go on: scores are not finite, or a program skips a layer for some tokens
/// only. Thrown on every rank of the tensor axis at the same token.
class GenerationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Tokens that were drawn, and the facts about their scores. On ranks other than 0 only the ids.
struct Drawn {
  at::Tensor ids;         // int64 [batch], the same on every rank
  at::Tensor logprobs;    // float64 [batch], log softmax of the scores; undefined: not asked for
  at::Tensor top_ids;     // int64 [batch, n], the best tokens first
  at::Tensor top_logits;  // float64 [batch, n]
};

/// Draws tokens from scores whose vocabulary is sharded over the tensor axis. Ranks send only the
/// scores that may be drawn. Rank 0 draws with Philox (Salmon et al. 2011); a number depends only
/// on the seed, the prompt and the index of the token, so the division into batches and the number
/// of ranks do not change it. Thread: the thread that runs the model.
class Sampler {
 public:
  /// `top_logits`: the number of best scores that draw() returns; 0: none, and no log probability.
  Sampler(const config::SamplingConfig& options, std::uint64_t seed, std::int64_t vocab_size,
          std::int64_t top_logits, const comm::ProcessGroup& tensor);

  /// `logits`: [batch, local vocabulary]. `first_prompt`: the number of the first row's prompt.
  /// `index`: of the token in its response. Throws GenerationError if the best score of a row is
  /// not finite. Collective along the tensor axis.
  Drawn draw(const at::Tensor& logits, std::int64_t first_prompt, std::int64_t index) const;

 private:
  /// The best scores of each row on rank 0, the best one first, or all scores in the order of ids.
  struct Candidates {
    at::Tensor scores, ids;  // [batch, candidates]
    Candidates first(std::int64_t count) const;
    Candidates by_id() const;
  };
  Candidates gather_best(const at::Tensor& logits, std::int64_t count) const;
  Candidates gather_all(const at::Tensor& logits) const;
  at::Tensor log_normalizers(const at::Tensor& logits) const;
  at::Tensor choose(const Candidates& from, std::int64_t first_prompt, std::int64_t index) const;

  config::SamplingConfig options_;
  std::uint64_t seed_;
  std::int64_t vocab_size_;
  std::int64_t top_logits_;
  comm::ProcessGroup tensor_;
};

}  // namespace tt::generate
