#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "tensor_tracer/comm/process_group.h"

/// The loss of a vocabulary that is sharded over the tensor ranks as in VocabParallelEmbedding. It
/// is computed for one chunk of tokens after another: softmax, loss and gradients of a chunk need
/// no other chunk but the sums of the gradients. The ranks exchange three values per token. Source:
/// Megatron-LM (arXiv 1909.08053), 3; gradients in the forward pass: Liger Kernel (arXiv
/// 2410.10989). Thread: the thread that runs the step.
namespace tt::nn {

/// This rank's part of the loss.
struct VocabularyShard {
  const comm::ProcessGroup& group;  // tensor ranks; outlives the backward pass
  std::int64_t first_token = 0;     // of this rank's shard
  std::int64_t chunk_size = 1;      // tokens; above 0, the same on every rank
};

/// The tokens whose loss counts.
struct LossMask {
  at::Tensor counted = {};  // bool [tokens]; undefined: all
  double divisor = 0;       // of the sum of the losses that count; above 0
};

/// The tokens of a chunk: `requested`, or as many as have 2^24 logits (of the whole vocabulary, so
/// that the chunks are the same on every mesh) if `requested` is 0.
std::int64_t loss_chunk_size(std::int64_t requested, std::int64_t vocab_size);

/// x Wᵀ: the whole logits. x [..., hidden], weight [local vocabulary, hidden] -> [..., local
/// vocabulary]. The backward pass sums the gradient of x over the ranks.
at::Tensor output_logits(const at::Tensor& x, const at::Tensor& weight,
                         const VocabularyShard& shard);

/// Mean over tokens of -log softmax(logits)[label]; with a mask, the sum over the tokens that
/// count, divided by the mask's divisor. `logits` [tokens, local vocabulary], labels int64
/// [tokens]; a label whose loss does not count may be -1. Computed in float32, or float64 for
/// float64 logits.
at::Tensor vocab_parallel_cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                                        const VocabularyShard& shard, const LossMask& mask = {});

/// Reads the logits of a chunk, [tokens, local vocabulary]; `first`: the chunk's first token.
using LogitsReader = std::function<void(std::int64_t first, const at::Tensor& logits)>;

/// vocab_parallel_cross_entropy(output_logits(x, weight)), but only one chunk of the logits is in
/// memory. Loss and gradients have the same bits. x [tokens, hidden]. The forward pass computes
/// the gradients of x and of the weight, unless one of them does not require a gradient. It takes
/// `start` as the gradient of the loss. If the backward pass begins with another gradient of the
/// loss, it scales the results. `read`, if any, is called for each chunk. REQUIRES: start is not 0.
at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& labels, const VocabularyShard& shard,
                                double start, const LossMask& mask = {},
                                const LogitsReader& read = {});

}  // namespace tt::nn
