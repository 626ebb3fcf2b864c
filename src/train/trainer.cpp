#include "tensor_tracer/train/trainer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "src/train/export.h"
#include "tensor_tracer/base/thread.h"

namespace tt::train {
namespace {

using Clock = std::chrono::steady_clock;

nn::BuildContext build_context(const config::TrainConfig& config, const Groups& groups) {
  const at::ScalarType params = config.params_dtype == "float64" ? at::kDouble : at::kFloat;
  return {groups.tensor, static_cast<std::uint64_t>(config.seed), params,
          config.bf16 ? at::kBFloat16 : params, config.model.init_method_std};
}

std::vector<at::Tensor> values_of(const std::vector<nn::Parameter>& parameters) {
  std::vector<at::Tensor> values;
  for (const nn::Parameter& parameter : parameters) values.push_back(parameter.local);
  return values;
}

optim::LrSchedule schedule_of(const config::TrainConfig& config) {
  const auto& optimizer = config.optimizer;
  const std::int64_t decay =
      optimizer.lr_decay_iters > 0 ? optimizer.lr_decay_iters : config.train_iters;
  return {optimizer.lr, optimizer.last_lr(), optimizer.lr_warmup_iters, decay};
}

optim::AdamWOptions adamw_options(const config::OptimizerConfig& config) {
  return {config.adam_beta1, config.adam_beta2, config.adam_eps, config.weight_decay};
}

}  // namespace

Trainer::Trainer(const config::TrainConfig& config, TrainerParts parts)
    : config_(config),
      parts_(std::move(parts)),
      global_batch_(config.global_batch(parts_.groups.shape.data)),
      num_micro_batches_(global_batch_ / (config.micro_batch_size * parts_.groups.shape.data)),
      order_(parts_.corpus->size(), config.model.seq_length,
             config::parse_split(config.data.split).value().second,
             static_cast<std::uint64_t>(config.seed)),
      batches_(*parts_.corpus, order_, config.model.seq_length),
      model_(build_context(config, parts_.groups), config.model, config.micro_batch_size),
      parameters_(model_.parameters()),
      gradients_(parameters_, parts_.groups.tensor, parts_.groups.data),
      optimizer_(values_of(parameters_), adamw_options(config.optimizer)),
      schedule_(schedule_of(config)),
      tracer_(parts_.plan_context, {parts_.run_id, parts_.groups.coordinates}, parts_.groups.tracer,
              parts_.sink),
      control_(parts_.groups.control, parts_.control_source, parts_.sink, tracer_, parts_.hooks,
               [this](const nlohmann::json& params, const trace::FileContents& contents,
                      std::int64_t done) { return preview(params, contents, done); }) {
  if (!config.export_tensors.empty()) {
    export_steps_ = config::parse_steps(config.export_at).value();
  }
  if (parts_.plan != nullptr) {
    tracer_.set_plan(parts_.plan);
    control_.plan_was_set();
  }
}

void Trainer::run() {
  if (config_.tracer.tensor_tracer_wait) control_.wait_for_viewer();
  if (parts_.sink != nullptr) {
    parts_.sink->send_event("state", {{"phase", "training"}, {"step", 0}});
  }
  std::int64_t number = 1;
  for (; number <= config_.train_iters && control_.before_step(number); ++number) {
    StepReport report = step(number);
    const bool is_last = number == config_.train_iters;
    if (config_.eval_interval > 0 && (number % config_.eval_interval == 0 || is_last)) {
      report.valid_loss = evaluate(number);
    }
    if (number % config_.monitor.monitor_interval == 0 || is_last) run_prompts(number);
    tell(report);
    notify_interventions(number);
    verify_sequences(parts_.groups);
  }
  control_.finish(number - 1);
}

StepReport Trainer::step(std::int64_t number) {
  const auto begin = Clock::now();
  const trace::TracerSeconds before = tracer_.seconds();
  StepReport report;
  report.step = number;
  report.lr = schedule_.at(number);
  gradients_.zero();
  report.loss = mean_over_data(forward_backward(number));
  gradients_.reduce();
  report.grad_norm = gradients_.norm();
  if (std::ranges::find(export_steps_, number) != export_steps_.end()) {
    export_step(number, report.loss);
  }
  update(report);
  tracer_.finish();
  const std::chrono::duration<double> seconds = Clock::now() - begin;
  const std::int64_t tokens = global_batch_ * config_.model.seq_length;
  report.step_ms = seconds.count() * 1e3;
  const trace::TracerSeconds after = tracer_.seconds();
  report.tracer_ms = (after.all - before.all) * 1e3;
  report.gather_ms = (after.gather - before.gather) * 1e3;
  report.encode_ms = (after.encode - before.encode) * 1e3;
  report.tokens_per_second = static_cast<double>(tokens) / seconds.count();
  report.consumed_tokens = number * tokens;
  return report;
}

void Trainer::update(const StepReport& report) {
  // Both numbers are the same on all ranks, so all stop or none.
  if (!std::isfinite(report.loss) || !std::isfinite(report.grad_norm)) {
    if (recover_from_nonfinite(report.step)) return;
    tell(report);
    throw TrainError("loss " + std::to_string(report.loss) + " or gradient norm " +
                     std::to_string(report.grad_norm) + " is not finite at step " +
                     std::to_string(report.step));
  }
  if (config_.optimizer.clip_grad > 0) {
    gradients_.clip(report.grad_norm, config_.optimizer.clip_grad);
  }
  optimizer_.step(report.lr);
}

// What a micro-batch has of the loss of the global batch, so that the gradient of any place is the
// same on every mesh.
double Trainer::share_of_loss() const {
  return 1.0 / static_cast<double>(num_micro_batches_ * parts_.groups.shape.data);
}

double Trainer::forward_backward(std::int64_t number) {
  double sum = 0.0;
  const int replicas = parts_.groups.shape.data;
  for (std::int64_t micro = 0; micro < num_micro_batches_; ++micro) {
    const std::int64_t first_row =
        (micro * replicas + parts_.groups.coordinates.data) * config_.micro_batch_size;
    const data::Batch batch =
        batches_.train(number, global_batch_, first_row, config_.micro_batch_size);
    const trace::ForwardScope scope{number, micro, first_row, trace::Phase::kTrain};
    tracer_.begin_forward(scope);
    const nn::ForwardContext context{tracer_, static_cast<std::uint64_t>(config_.seed),
                                     number,  first_row,
                                     true,    acting(scope, batch.tokens)};
    const at::Tensor loss = model_.loss(batch.tokens, batch.labels, context);
    tracer_.end_forward();
    // A program may have cut the loss off from all weights.
    if (loss.requires_grad()) {
      loss.backward(at::full_like(loss, share_of_loss()));
    }
    tracer_.end_backward();
    end_interventions();
    sum += loss.item<double>();
  }
  return sum / static_cast<double>(num_micro_batches_);
}

double Trainer::evaluate(std::int64_t number) {
  if (parts_.sink != nullptr) {
    parts_.sink->send_event("state", {{"phase", "evaluating"}, {"step", number}});
  }
  double sum = 0.0;
  for (std::int64_t index = 0; index < config_.eval_iters; ++index) {
    sum += forward_only(number, index);
  }
  if (parts_.sink != nullptr) {
    parts_.sink->send_event("state", {{"phase", "training"}, {"step", number}});
  }
  return mean_over_data(sum / static_cast<double>(config_.eval_iters));
}

double Trainer::forward_only(std::int64_t number, std::int64_t index) {
  const at::NoGradGuard no_grad;
  const int replicas = parts_.groups.shape.data;
  double sum = 0.0;
  for (std::int64_t micro = 0; micro < num_micro_batches_; ++micro) {
    const std::int64_t first_row =
        (micro * replicas + parts_.groups.coordinates.data) * config_.micro_batch_size;
    const data::Batch batch =
        batches_.valid(index, global_batch_, first_row, config_.micro_batch_size);
    const trace::ForwardScope scope{number, micro, first_row, trace::Phase::kEval, 0, index};
    tracer_.begin_forward(scope);
    const nn::ForwardContext context{tracer_, static_cast<std::uint64_t>(config_.seed),
                                     number,  first_row,
                                     false,   acting(scope, batch.tokens)};
    sum += model_.loss(batch.tokens, batch.labels, context).item<double>();
    tracer_.end_forward();
    tracer_.finish();
    end_interventions();
  }
  return sum / static_cast<double>(num_micro_batches_);
}

// Only where somebody watches or a program acts, and on the replica that is watched.
void Trainer::run_prompts(std::int64_t number) {
  if (parts_.groups.coordinates.data != 0) return;
  const at::NoGradGuard no_grad;
  for (std::size_t set = 0; set < parts_.prompts.size(); ++set) {
    const at::Tensor tokens = parts_.prompts[set].tokens();
    std::int64_t micro = 0;
    for (std::int64_t row = 0; row < tokens.size(0); row += config_.micro_batch_size, ++micro) {
      const trace::ForwardScope scope{number, micro, row, trace::Phase::kEval,
                                      static_cast<std::uint32_t>(set) + 1};
      tracer_.begin_forward(scope);
      const at::Tensor part =
          tokens.narrow(0, row, std::min(config_.micro_batch_size, tokens.size(0) - row));
      trace::InterventionHooks* hooks = acting(scope, part);
      if (!tracer_.armed() && hooks == nullptr) break;
      const nn::ForwardContext context{
          tracer_, static_cast<std::uint64_t>(config_.seed), number, row, false, hooks};
      model_.logits(part, context);
      tracer_.end_forward();
      tracer_.finish();
      end_interventions();
    }
  }
}

TracerCost Trainer::total_cost() const {
  at::Tensor sums = at::empty({2}, at::device(at::kCPU).dtype(at::kDouble));
  sums[0] = tracer_.seconds().all;
  sums[1] = base::process_cpu_seconds();
  parts_.groups.world.all_reduce(sums);
  return {sums[0].item<double>(), sums[1].item<double>()};
}

void Trainer::export_step(std::int64_t number, double loss) {
  const data::Batch batch = batches_.train(number, global_batch_, 0, global_batch_);
  const ExportedStep exported{number, loss, batch, config_.model, parameters_};
  const base::Status status = write_export(config_.export_tensors, exported, parts_.groups);
  if (!status) throw TrainError(to_string(status.error()));
}

void Trainer::tell(const StepReport& report) {
  if (parts_.sink != nullptr && parts_.groups.world.rank() == 0) {
    parts_.sink->send_event("step", to_json(report));
  }
  if (parts_.on_step) parts_.on_step(report);
}

double Trainer::mean_over_data(double value) const {
  at::Tensor sum = at::full({1}, value, at::device(at::kCPU).dtype(at::kDouble));
  parts_.groups.data.all_reduce(sum);
  return sum.item<double>() / parts_.groups.data.size();
}

}  // namespace tt::train
