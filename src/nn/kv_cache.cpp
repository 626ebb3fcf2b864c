#include "tensor_tracer/nn/kv_cache.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/TensorIndexing.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

// Shapes: B batch, N local heads, G local query groups, R heads of a group, K tokens of the longest
// row, D head size.

namespace tt::nn {

KvCache::KvCache(std::int64_t num_layers, const at::Tensor& lengths, std::int64_t capacity)
    : layers_(static_cast<std::size_t>(num_layers)),
      lengths_(lengths.clone()),
      positions_(lengths_.unsqueeze(1)),
      rows_(at::arange(lengths.size(0), lengths.options())),
      longest_(lengths.max().item<std::int64_t>()),
      are_equal_(lengths.min().item<std::int64_t>() == longest_),
      capacity_(capacity) {}

void KvCache::enter(int layer) { current_ = static_cast<std::size_t>(layer) - 1; }

// The rest of the capacity is zero: attention multiplies hidden values by zero, and zero times a
// number that is not finite would not be zero.
void KvCache::store(const at::Tensor& k_BGTD, const at::Tensor& v_BGTD) {
  const auto keep = [this](const at::Tensor& some_BGTD) {
    at::Tensor all = at::zeros({some_BGTD.size(0), some_BGTD.size(1), capacity_, some_BGTD.size(3)},
                               some_BGTD.options());
    all.narrow(2, 0, some_BGTD.size(2)).copy_(some_BGTD);
    return all;
  };
  layers_[current_] = {keep(k_BGTD), keep(v_BGTD), 1};
}

// [B, 1, 1, K]: -inf for the keys behind the new token of the row, else 0. The same for all layers.
at::Tensor KvCache::hidden_keys(at::ScalarType dtype) {
  if (hidden_.defined()) return hidden_;
  const at::Tensor keys_K = at::arange(longest_ + 1, lengths_.options());
  const at::Tensor is_hidden_BK = keys_K.unsqueeze(0).gt(lengths_.unsqueeze(1));
  hidden_ = at::zeros(is_hidden_BK.sizes(), lengths_.options().dtype(dtype))
                .masked_fill_(is_hidden_BK, -std::numeric_limits<double>::infinity())
                .view({-1, 1, 1, longest_ + 1});
  return hidden_;
}

at::Tensor KvCache::attend(const at::Tensor& q_BN1D, const at::Tensor& k_BG1D,
                           const at::Tensor& v_BG1D) {
  Layer& layer = layers_[current_];
  if (layer.passes != passes_) {
    throw SkippedLayer("layer " + std::to_string(current_ + 1) +
                       " was skipped for some tokens of the text only");
  }
  ++layer.passes;
  const auto add = [this](at::Tensor& all_BGKD, const at::Tensor& new_BG1D) {
    if (are_equal_)
      all_BGKD.narrow(2, longest_, 1).copy_(new_BG1D);
    else
      all_BGKD.index_put_({rows_, at::indexing::Slice(), lengths_}, new_BG1D.squeeze(2));
    return all_BGKD.narrow(2, 0, longest_ + 1);
  };
  const at::Tensor k_BGKD = add(layer.keys, k_BG1D), v_BGKD = add(layer.values, v_BG1D);
  const double scale = 1.0 / std::sqrt(static_cast<double>(q_BN1D.size(3)));
  const at::Tensor q_BGRD = q_BN1D.squeeze(2).unflatten(1, {k_BG1D.size(1), -1});
  const auto dtype = at::toOpMathType(q_BN1D.scalar_type());
  at::Tensor scores_BGRK = q_BGRD.matmul(k_BGKD.transpose(2, 3)).to(dtype).mul_(scale);
  if (!are_equal_) scores_BGRK.add_(hidden_keys(dtype));
  const at::Tensor weights_BGRK = scores_BGRK.softmax(-1).to(v_BGKD.scalar_type());
  return weights_BGRK.matmul(v_BGKD).flatten(1, 2).unsqueeze(2);
}

void KvCache::end_pass() {
  if (is_step_) {
    lengths_ = lengths_ + 1;
    ++longest_;
  }
  lengths_ = lengths_.clamp_max(capacity_ - 1);
  longest_ = std::min(longest_, capacity_ - 1);
  positions_ = lengths_.unsqueeze(1);
  is_step_ = true;
  ++passes_;
  hidden_.reset();
}

}  // namespace tt::nn
