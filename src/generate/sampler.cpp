#include "tensor_tracer/generate/sampler.h"

#include <ATen/ATen.h>
#include <ATen/core/PhiloxRNGEngine.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include "tensor_tracer/base/hash.h"
#include "tensor_tracer/nn/embedding.h"

// Shapes: B batch, V local vocabulary, C candidates.

namespace tt::generate {
namespace {

constexpr double kLowest = -std::numeric_limits<double>::infinity();

// In [0, 1), a multiple of 2^-52, so that the product with a sum is below the sum.
double uniform(std::uint64_t seed, std::int64_t prompt, std::int64_t index) {
  at::Philox4_32 engine(base::mix(seed, base::hash_of("generate")),
                        static_cast<std::uint64_t>(prompt), static_cast<std::uint64_t>(index));
  const double high = engine() >> 6U, low = engine() >> 6U;
  return (high * 67108864.0 + low) / 4503599627370496.0;
}

// Sets the probabilities behind the first ones that reach `top_p` together to 0.
at::Tensor keep_top_p(const at::Tensor& p_BC, double top_p) {
  const auto [sorted_BC, order_BC] = p_BC.sort(/*stable=*/true, -1, /*descending=*/true);
  const at::Tensor before_BC = sorted_BC.cumsum(-1) - sorted_BC;
  const at::Tensor kept_BC = sorted_BC.masked_fill(before_BC.ge(top_p), 0.0);
  // The best token stays even if top_p is 0.
  kept_BC.select(-1, 0).copy_(sorted_BC.select(-1, 0));
  return at::zeros_like(p_BC).scatter_(-1, order_BC, kept_BC);
}

// The tensors of all ranks, one beside the other along dim 1; only on rank 0.
at::Tensor gather_columns(const at::Tensor& own_BC, const comm::ProcessGroup& tensor) {
  if (tensor.size() == 1) return own_BC;
  at::Tensor all_RBC = at::empty({tensor.size(), own_BC.size(0), own_BC.size(1)}, own_BC.options());
  tensor.gather(own_BC.contiguous(), all_RBC, 0);
  return all_RBC.transpose(0, 1).flatten(1);
}

}  // namespace

Sampler::Sampler(const config::SamplingConfig& options, std::uint64_t seed, std::int64_t vocab_size,
                 std::int64_t top_logits, const comm::ProcessGroup& tensor)
    : options_(options),
      seed_(seed),
      vocab_size_(vocab_size),
      top_logits_(std::min(top_logits, vocab_size)),
      tensor_(tensor) {}

Sampler::Candidates Sampler::Candidates::first(std::int64_t count) const {
  const std::int64_t kept = std::min(count, scores.size(1));
  return {scores.narrow(1, 0, kept), ids.narrow(1, 0, kept)};
}

Sampler::Candidates Sampler::Candidates::by_id() const {
  const auto [sorted_BC, order_BC] = ids.sort(-1);
  return {scores.gather(1, order_BC), sorted_BC};
}

// The shards of two ranks may differ by one token: the smaller ones get a score that nothing draws.
Sampler::Candidates Sampler::gather_best(const at::Tensor& logits_BV, std::int64_t count) const {
  const std::int64_t ranks = tensor_.size();
  const std::int64_t width = std::min(count, (vocab_size_ + ranks - 1) / ranks);
  const std::int64_t own = std::min(width, logits_BV.size(1));
  const std::int64_t first = nn::first_local_token(vocab_size_, tensor_);
  // topk() sorts more than max() needs.
  auto [scores_BC, ids_BC] =
      own == 1 ? logits_BV.max(-1, /*keepdim=*/true) : logits_BV.topk(own, -1);
  scores_BC = at::constant_pad_nd(scores_BC.to(at::kDouble), {0, width - own}, kLowest);
  ids_BC = at::constant_pad_nd(ids_BC + first, {0, width - own}, -1);
  scores_BC = gather_columns(scores_BC, tensor_);
  ids_BC = gather_columns(ids_BC, tensor_);
  if (ranks == 1 || tensor_.rank() != 0) return {scores_BC, ids_BC};
  // Stable: of equal scores, those of the lower rank come first.
  const auto [best_BC, order_BC] = scores_BC.sort(/*stable=*/true, -1, /*descending=*/true);
  return {best_BC, ids_BC.gather(1, order_BC)};
}

Sampler::Candidates Sampler::gather_all(const at::Tensor& logits_BV) const {
  const std::int64_t ranks = tensor_.size();
  const std::int64_t width = (vocab_size_ + ranks - 1) / ranks;
  const std::int64_t first = nn::first_local_token(vocab_size_, tensor_);
  const std::int64_t padding = width - logits_BV.size(1);
  const at::Tensor ids_V = at::arange(first, first + width, at::device(at::kCPU).dtype(at::kLong));
  return {gather_columns(at::constant_pad_nd(logits_BV, {0, padding}, kLowest), tensor_),
          gather_columns(ids_V.expand({logits_BV.size(0), width}), tensor_)};
}

// log(sum(exp(scores))) over the whole vocabulary, float64 [B]; on rank 0.
at::Tensor Sampler::log_normalizers(const at::Tensor& logits_BV) const {
  const at::Tensor own_B1 = logits_BV.to(at::kDouble).logsumexp(-1, /*keepdim=*/true);
  return gather_columns(own_B1, tensor_).logsumexp(-1);
}

// `from` is in the order of ids: so the order of nearly equal scores, which may differ between
// numbers of ranks, does not matter.
at::Tensor Sampler::choose(const Candidates& from, std::int64_t first_prompt,
                           std::int64_t index) const {
  at::Tensor p_BC = (from.scores.to(at::kDouble) / options_.temperature).softmax(-1);
  if (options_.top_p < 1.0) p_BC = keep_top_p(p_BC, options_.top_p);
  const at::Tensor sums_BC = p_BC.cumsum(-1).contiguous();
  std::vector<double> numbers;
  for (std::int64_t row = 0; row < p_BC.size(0); ++row)
    numbers.push_back(uniform(seed_, first_prompt + row, index));
  const at::Tensor u_B1 = at::tensor(numbers, sums_BC.options()).unsqueeze(1);
  const at::Tensor drawn_B1 = at::searchsorted(sums_BC, u_B1 * sums_BC.narrow(1, -1, 1),
                                               /*out_int32=*/false, /*right=*/true);
  return from.ids.gather(1, drawn_B1).squeeze(1);
}

Drawn Sampler::draw(const at::Tensor& logits_BV, std::int64_t first_prompt,
                    std::int64_t index) const {
  const bool is_greedy = options_.temperature == 0.0;
  const std::int64_t width = is_greedy ? 1 : options_.top_k;  // 0: every token may be drawn
  Candidates best, from;
  if (width > 0 || top_logits_ > 0) best = gather_best(logits_BV, std::max(width, top_logits_));
  from = width > 0 ? best.first(width).by_id() : gather_all(logits_BV);
  Drawn drawn;
  drawn.ids = at::full({logits_BV.size(0)}, -1, at::device(at::kCPU).dtype(at::kLong));
  // -inf is the score of a token that a program excludes.
  if (tensor_.rank() == 0 && from.scores.amax(-1).isfinite().all().item<bool>())
    drawn.ids = is_greedy ? from.ids.select(1, 0).contiguous() : choose(from, first_prompt, index);
  tensor_.broadcast(drawn.ids, 0);
  if (drawn.ids.lt(0).any().item<bool>())
    throw GenerationError("the scores of the next token are not finite");
  if (top_logits_ == 0) return drawn;
  const at::Tensor is_drawn_BC = from.ids.eq(drawn.ids.unsqueeze(1));
  const at::Tensor score_B =
      from.scores.masked_fill(is_drawn_BC.logical_not(), kLowest).amax(-1).to(at::kDouble);
  drawn.logprobs = score_B - log_normalizers(logits_BV);
  const Candidates top = best.first(top_logits_);
  drawn.top_ids = top.ids;
  drawn.top_logits = top.scores;
  return drawn;
}

}  // namespace tt::generate
