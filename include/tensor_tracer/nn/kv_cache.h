#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <stdexcept>
#include <vector>

namespace tt::nn {

/// A layer did not keep the earlier tokens, because a program skipped it.
class SkippedLayer : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The keys and values of the tokens so far, for a model that generates text. The first pass runs
/// over whole prompts, which are padded at their ends; attention is causal, so padding changes no
/// token of a prompt. Each later pass runs over one new token of each row, which may be at another
/// position in each row. Memory: two tensors [batch, query groups of this rank, capacity, head
/// size] for each layer. Thread: the thread that runs the model.
///
///     KvCache cache(num_layers, lengths, capacity);
///     … forward over the prompts …
///     cache.end_pass();
///     … forward over one token of each row …
///     cache.end_pass();
class KvCache {
 public:
  /// `lengths`: tokens of each prompt, int64 [batch]. `capacity`: the most tokens of a row.
  KvCache(std::int64_t num_layers, const at::Tensor& lengths, std::int64_t capacity);

  /// False: the pass runs over prompts.
  bool is_step() const { return is_step_; }
  /// Of a step: the position of each row's new token, int64 [batch, 1].
  const at::Tensor& positions() const { return positions_; }

  /// The layer, from 1, that the next call of store() or attend() means.
  void enter(int layer);
  /// Keeps the prompts' keys and values, both [batch, groups, tokens, head size].
  void store(const at::Tensor& keys, const at::Tensor& values);
  /// Keeps the new token's keys and values, both [batch, groups, 1, head size]. Returns the
  /// attention of its queries [batch, heads, 1, head size] to every token of the row so far, in the
  /// same shape. Neighbouring heads share a group. The softmax is computed in float32, or in
  /// float64 for float64 queries. Throws SkippedLayer.
  at::Tensor attend(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values);
  /// The pass is over: the rows hold its tokens. The next token of a row that is full replaces the
  /// last one.
  void end_pass();

 private:
  struct Layer {
    at::Tensor keys, values;  // [batch, groups, capacity, head size]; undefined: no pass yet
    std::int64_t passes = 0;  // that the layer kept
  };
  at::Tensor hidden_keys(at::ScalarType dtype);

  std::vector<Layer> layers_;
  std::size_t current_ = 0;
  at::Tensor lengths_;    // tokens that each row holds
  at::Tensor positions_;  // the same, with a dim for the new token
  at::Tensor rows_;       // 0, 1, …
  std::int64_t longest_ = 0;
  bool are_equal_;  // the rows hold the same number of tokens
  std::int64_t capacity_;
  std::int64_t passes_ = 0;
  bool is_step_ = false;
  at::Tensor hidden_;  // of this step; undefined: not made yet
};

}  // namespace tt::nn
