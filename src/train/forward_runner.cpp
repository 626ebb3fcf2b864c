#include "tensor_tracer/train/forward_runner.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <utility>

#include "src/train/finite_check.h"
#include "tensor_tracer/comm/collectives.h"

namespace tt::train {

ForwardRunner::ForwardRunner(const config::TrainConfig& config, const Groups& groups,
                             const model::Gpt& model, data::Batches& batches,
                             trace::InterventionHooks* hooks)
    : seed_(static_cast<std::uint64_t>(config.seed)),
      micro_batch_size_(config.micro_batch_size),
      global_batch_(config.global_batch(groups.shape.data)),
      num_micro_batches_(global_batch_ / (micro_batch_size_ * groups.shape.data)),
      loss_gradient_(1.0 / static_cast<double>(num_micro_batches_ * groups.shape.data)),
      groups_(groups),
      model_(model),
      batches_(batches),
      hooks_(hooks) {
  if (hooks_ == nullptr) return;
  hooks_->use_modules(
      {[&head = model_.head()](const at::Tensor& x) { return head.final_norm(x); },
       [&head = model_.head()](const at::Tensor& x) { return head.output_layer(x); }});
}

OpenForward ForwardRunner::open(const trace::ForwardScope& scope, const trace::PassText& text,
                                trace::Tracer* tracer, trace::InterventionHooks* hooks) const {
  OpenForward forward;
  if (tracer != nullptr) forward.pass = tracer->begin(scope);
  forward.pass.set_text(text);
  const bool is_response = scope.phase == trace::Phase::kGeneration;
  if (hooks == nullptr || (is_response && !forward.pass.armed())) return forward;
  trace::ForwardScope acting = scope;
  if (is_response) {  // the generation has counted the programs
    acting.batch = 1;
    acting.is_copy = true;
  }
  forward.interventions = hooks->begin(acting, {text.tokens, {}, text.response});
  return forward;
}

nn::ForwardContext ForwardRunner::context_of(OpenForward& forward, const trace::ForwardScope& scope,
                                             bool drops) const {
  return {.pass = forward.pass,
          .seed = seed_,
          .step = scope.step,
          .first_row = scope.first_row,
          .is_training = drops,
          .interventions = forward.interventions.get(),
          .loss_gradient = loss_gradient_};
}

data::Batch ForwardRunner::read(const GlobalBatch& of, std::int64_t micro_batch) {
  const std::int64_t first_row =
      (micro_batch * groups_.shape.data + groups_.coordinates.data) * micro_batch_size_;
  return of.phase == trace::Phase::kTrain
             ? batches_.train(of.step, global_batch_, first_row, micro_batch_size_)
             : batches_.valid(of.index, global_batch_, first_row, micro_batch_size_);
}

OpenForward ForwardRunner::forward(const GlobalBatch& of, std::int64_t micro_batch,
                                   trace::Tracer* tracer) {
  const at::AutoGradMode mode(of.has_backward);
  const data::Batch batch = read(of, micro_batch);
  const trace::ForwardScope scope{of.step, micro_batch, batch.first_row, of.phase, 0, of.index};
  const trace::PassText text{batch.tokens, batch.labels, batch.response()};
  OpenForward forward = open(scope, text, tracer, hooks_);
  nn::ForwardContext context = context_of(forward, scope, of.drops);
  context.documents = nn::RowDocuments(batch.starts);
  if (of.check != nullptr) context.interventions = of.check->after(context.interventions);
  // A global batch without a label that counts has the loss 0.
  forward.loss = model_.loss(batch.tokens, batch.labels, context,
                             {batch.counted, batch.num_counted > 0 ? batch.num_counted : 1.0});
  forward.pass.end_forward();
  return forward;
}

// The backward starts from the loss of the global batch, so that the gradient of each place is the
// same on every mesh. A program may have removed the graph between the loss and all weights; then
// there is no backward.
void ForwardRunner::backward(OpenForward& forward) const {
  if (forward.loss.requires_grad())
    forward.loss.backward(at::full_like(forward.loss, loss_gradient_));
  forward.pass.end_backward();
  if (forward.interventions != nullptr) forward.interventions->end();
}

double ForwardRunner::mean_loss(const GlobalBatch& of, trace::Tracer* tracer) {
  at::Tensor sum;
  for (std::int64_t micro = 0; micro < num_micro_batches_; ++micro) {
    finish();
    OpenForward forward = this->forward(of, micro, tracer);
    backward(forward);
    const at::Tensor loss = forward.loss.detach().to(at::kDouble);
    sum = sum.defined() ? sum + loss : loss;
    last_ = std::move(forward.pass);
  }
  return sum.item<double>() / static_cast<double>(num_micro_batches_);
}

double ForwardRunner::mean_over_replicas(double value) const {
  return comm::sum_over(groups_.data, value) / groups_.data.size();
}

void ForwardRunner::run_prompts(const std::vector<data::PromptSet>& sets, std::int64_t step,
                                trace::Tracer& tracer) {
  control::for_each_pass(
      sets, step, micro_batch_size_,
      [&](const trace::ForwardScope& scope, const trace::PassText& text) {
        return run_prompt({scope, text, tracer, hooks_});
      });
}

std::vector<control::BatchLoss> ForwardRunner::run_preview(const control::PreviewPasses& passes) {
  const double train = mean_over_replicas(
      mean_loss({.step = passes.step, .has_backward = passes.has_backward}, nullptr));
  const double valid = mean_over_replicas(
      mean_loss({.step = passes.step, .phase = trace::Phase::kEval}, &passes.watch));
  finish();
  run_prompts(passes.prompts, passes.step, passes.watch);
  return {{"train", train}, {"valid", valid}};
}

bool ForwardRunner::run_prompt(const control::PromptPass& pass) const {
  if (groups_.coordinates.data != 0) return false;
  const at::NoGradGuard no_grad;
  OpenForward forward = open(pass.scope, pass.text, &pass.tracer, pass.hooks);
  if (!forward.pass.armed() && forward.interventions == nullptr) return false;
  model_.logits(pass.text.tokens, context_of(forward, pass.scope, /*drops=*/false));
  forward.pass.end_forward();
  forward.pass.finish();
  if (forward.interventions != nullptr) forward.interventions->end();
  return true;
}

}  // namespace tt::train
