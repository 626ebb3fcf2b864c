#include "tensor_tracer/vectors/state_reader.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "src/vectors/hidden_means.h"
#include "tensor_tracer/nn/context.h"
#include "tensor_tracer/vectors/kinds.h"

// Shapes: B texts, K kinds, T tokens of the longest text.

namespace tt::vectors {
namespace {

using Texts = std::vector<const data::PromptedText*>;

// int64 [B, T], with zeros behind the shorter texts. Attention is causal, so they change nothing.
at::Tensor padded_ids(const Texts& texts, std::int64_t longest) {
  at::Tensor all_BT =
      at::zeros({std::ssize(texts), longest}, at::device(at::kCPU).dtype(at::kLong));
  auto* row = all_BT.mutable_data_ptr<std::int64_t>();
  for (const data::PromptedText* text : texts) {
    std::ranges::copy(text->ids, row);
    row += longest;
  }
  return all_BT;
}

// float64 [B, K, T]: 1 at the tokens of each kind.
at::Tensor marks_of(const Texts& texts, std::int64_t longest, bool includes_first) {
  at::Tensor marks_BKT =
      at::zeros({std::ssize(texts), kNumKinds, longest}, at::device(at::kCPU).dtype(at::kDouble));
  for (std::size_t b = 0; b < texts.size(); ++b) {
    const at::Tensor marks_KT = marks_BKT[static_cast<std::int64_t>(b)];
    const data::PromptedText& text = *texts[b];
    for (const auto& [begin, end] : text.response)
      marks_KT[kResponse].narrow(0, begin, end - begin).fill_(1);
    const std::int64_t prompt = text.prompt_length();
    marks_KT[kPrompt].narrow(0, 0, prompt).fill_(1);
    // Without a response the last token may be any token of the prompt, because texts are cut.
    if (prompt > 0 && !text.response.empty())
      marks_KT[kLastPrompt].narrow(0, prompt - 1, 1).fill_(1);
  }
  if (!includes_first) marks_BKT.select(2, 0).fill_(0);
  return marks_BKT;
}

}  // namespace

StateReader::StateReader(const model::Gpt& model, bool includes_first, bool keeps)
    : model_(model),
      includes_first_(includes_first),
      means_(keeps ? std::make_unique<HiddenMeans>(*model.places()) : nullptr) {}

StateReader::~StateReader() = default;

StateMeans StateReader::read(const Texts& texts) const {
  const at::NoGradGuard no_grad;
  std::vector<std::int64_t> lengths;
  for (const data::PromptedText* text : texts) lengths.push_back(text->length());
  const std::int64_t longest = *std::ranges::max_element(lengths);
  StateMeans means;
  if (means_ != nullptr) {
    const at::Tensor marks_BKT = marks_of(texts, longest, includes_first_);
    means.counts = marks_BKT.sum(2);
    means_->begin(marks_BKT / means.counts.clamp_min(1).unsqueeze(2), std::move(lengths));
  }
  trace::Pass untraced;
  const nn::ForwardContext context{
      .pass = untraced, .is_training = false, .interventions = means_.get()};
  model_.final_states(padded_ids(texts, longest), context);
  if (means_ != nullptr) means.states = means_->sums();
  return means;
}

}  // namespace tt::vectors
