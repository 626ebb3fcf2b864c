#include "tensor_tracer/generate/generator.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "tensor_tracer/nn/kv_cache.h"

// Shapes: B batch, T tokens of the longest prompt, or 1 in a step; V local vocabulary.

namespace tt::generate {
namespace {

using Ids = std::vector<std::int64_t>;

// [B, T], with zeros behind the shorter prompts.
at::Tensor padded(const std::vector<Ids>& prompts) {
  const auto longer = [](const Ids& a, const Ids& b) { return a.size() < b.size(); };
  const std::int64_t longest = std::ssize(*std::ranges::max_element(prompts, longer));
  at::Tensor all_BT =
      at::zeros({std::ssize(prompts), longest}, at::device(at::kCPU).dtype(at::kLong));
  auto* row = all_BT.mutable_data_ptr<std::int64_t>();
  for (const Ids& prompt : prompts) {
    std::ranges::copy(prompt, row);
    row += longest;
  }
  return all_BT;
}

template <typename Number>
std::vector<Number> row_of(const at::Tensor& all_BC, std::int64_t row) {
  const at::Tensor one_C = all_BC[row].contiguous();
  const auto* const numbers = one_C.const_data_ptr<Number>();
  return {numbers, numbers + one_C.numel()};
}

}  // namespace

// The state of the prompts that run together.
struct Generator::Batch {
  trace::ForwardScope scope;  // of the next pass
  at::Tensor lengths_B;       // of the prompts
  nn::KvCache cache;
  std::vector<std::int64_t> most;  // tokens of each response
  std::vector<Response> responses = std::vector<Response>(most.size());
  std::vector<std::uint8_t> is_done = {};  // by row

  bool is_over() const {
    return std::ranges::all_of(
        is_done, [](std::uint8_t done) { return done != 0; });
  }

  // bool [B, T]: the tokens of this pass at which programs may write. Padding, and rows that are
  // done already, are not among them.
  at::Tensor writable(std::int64_t num_tokens) const {
    const at::Tensor is_open_B1 =
        at::tensor(is_done, at::device(at::kCPU).dtype(at::kByte)).eq(0).unsqueeze(1);
    if (cache.is_step()) return is_open_B1;
    const at::Tensor column_T = at::arange(num_tokens, at::device(at::kCPU).dtype(at::kLong));
    return column_T.lt(lengths_B.unsqueeze(1)).logical_and(is_open_B1);
  }
};

Generator::Generator(const config::ModelConfig& config, const model::Gpt& model,
                     const comm::ProcessGroup& tensor, trace::InterventionHooks* hooks,
                     GenerateOptions options, OnToken on_token)
    : config_(config),
      model_(model),
      hooks_(hooks),
      options_(std::move(options)),
      on_token_(std::move(on_token)),
      sampler_(options_.sampling, options_.seed, config.vocab_size, options_.top_logits, tensor) {
  if (hooks_ == nullptr) return;
  hooks_->use_modules(
      {[&head = model_.head()](const at::Tensor& x) { return head.final_norm(x); },
       [&head = model_.head()](const at::Tensor& x) { return head.output_layer(x); }});
}

at::Tensor Generator::next_logits(Batch& batch, const at::Tensor& tokens_BT,
                                  const at::Tensor& last_B) {
  std::unique_ptr<trace::InterventionPass> programs;
  if (hooks_ != nullptr)
    programs = hooks_->begin(batch.scope, {tokens_BT, batch.writable(tokens_BT.size(1))});
  trace::Pass untraced;
  const nn::ForwardContext context{.pass = untraced,
                                   .step = batch.scope.step,
                                   .first_row = batch.scope.first_row,
                                   .is_training = false,
                                   .interventions = programs.get(),
                                   .cache = &batch.cache};
  at::Tensor logits_BV;
  try {
    logits_BV = model_.next_logits(tokens_BT, last_B, context);
  } catch (const nn::SkippedLayer& error) {
    throw GenerationError(error.what());
  }
  batch.cache.end_pass();
  ++batch.scope.batch;
  if (programs != nullptr) programs->end();
  return logits_BV;
}

void Generator::add(Batch& batch, const Drawn& drawn) {
  const Ids ids = row_of<std::int64_t>(drawn.ids.unsqueeze(0), 0);
  for (std::size_t row = 0; row < ids.size(); ++row) {
    if (batch.is_done[row] != 0) continue;
    Response& response = batch.responses[row];
    const auto number = static_cast<std::int64_t>(row);
    response.ids.push_back(ids[row]);
    if (drawn.logprobs.defined()) {
      response.logprobs.push_back(drawn.logprobs[number].item<double>());
      response.top_ids.push_back(row_of<std::int64_t>(drawn.top_ids, number));
      response.top_logits.push_back(row_of<double>(drawn.top_logits, number));
    }
    response.is_stopped = options_.stop_ids.contains(ids[row]);
    const bool is_last = std::ssize(response.ids) == batch.most[row];
    batch.is_done[row] = response.is_stopped || is_last ? 1 : 0;
    if (on_token_) on_token_(batch.scope.first_row + number, ids[row]);
  }
}

Generator::Batch Generator::open(const std::vector<Ids>& prompts,
                                 const trace::ForwardScope& scope) const {
  Ids lengths, most;
  std::int64_t capacity = 0;
  for (const Ids& prompt : prompts) {
    lengths.push_back(std::ssize(prompt));
    most.push_back(std::min(options_.sampling.max_new_tokens, config_.seq_length - lengths.back()));
    capacity = std::max(capacity, lengths.back() + most.back());
  }
  const at::Tensor lengths_B = at::tensor(lengths, at::device(at::kCPU).dtype(at::kLong));
  Batch batch{scope, lengths_B, nn::KvCache(config_.num_layers, lengths_B, capacity),
              std::move(most)};
  batch.scope.phase = trace::Phase::kGeneration;
  batch.scope.batch = 0;
  for (const std::int64_t tokens : batch.most) batch.is_done.push_back(tokens == 0 ? 1 : 0);
  return batch;
}

std::vector<Response> Generator::run(const std::vector<Ids>& prompts,
                                     const trace::ForwardScope& scope) {
  const at::NoGradGuard no_grad;
  Batch batch = open(prompts, scope);
  at::Tensor tokens_BT = padded(prompts);
  at::Tensor last_B = batch.lengths_B - 1;
  while (!batch.is_over()) {
    const std::int64_t index = batch.scope.batch;
    const at::Tensor logits_BV = next_logits(batch, tokens_BT, last_B);
    const Drawn drawn = sampler_.draw(logits_BV, scope.first_row, index);
    add(batch, drawn);
    tokens_BT = drawn.ids.unsqueeze(1);
    last_B = at::zeros_like(last_B);
  }
  return std::move(batch.responses);
}

}  // namespace tt::generate
