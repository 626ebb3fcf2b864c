#include "tensor_tracer/train/trainer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <utility>

#include "src/train/adapter_export.h"
#include "src/train/export.h"
#include "src/train/finite_check.h"
#include "src/train/hf_export.h"
#include "src/train/prompt_responses.h"
#include "tensor_tracer/base/thread.h"
#include "tensor_tracer/comm/collectives.h"
#include "tensor_tracer/control/preview.h"
#include "tensor_tracer/dtypes/names.h"

namespace tt::train {
namespace {

using Clock = std::chrono::steady_clock;

nn::BuildContext build_context(const config::TrainConfig& config, const TrainerParts& parts) {
  return {.tensor = parts.groups.tensor,
          .seed = static_cast<std::uint64_t>(config.seed),
          .params_dtype = dtypes::named(config.params_dtype),
          .compute_dtype = dtypes::named(config.compute_dtype()),
          .loads_parameters = parts.state != nullptr || parts.weights != nullptr,
          .loss_chunk_size = config.loss_chunk_size,
          .frozen = config.model.frozen()};
}

std::vector<nn::Parameter> trained_of(std::vector<nn::Parameter> parameters) {
  std::erase_if(parameters, [](const nn::Parameter& one) { return !one.is_trained; });
  return parameters;
}

std::vector<at::Tensor> values_of(const std::vector<nn::Parameter>& parameters) {
  std::vector<at::Tensor> values;
  for (const nn::Parameter& parameter : parameters) values.push_back(parameter.local);
  return values;
}

}  // namespace

Trainer::Trainer(const config::TrainConfig& config, TrainerParts parts)
    : config_(config),
      parts_(std::move(parts)),
      batches_(*parts_.blend, config.model.seq_length,
               config::parse_split(config.data.split).value().second,
               static_cast<std::uint64_t>(config.seed)),
      model_(build_context(config, parts_), config.model, config.micro_batch_size),
      parameters_(model_.parameters()),
      trained_(trained_of(parameters_)),
      gradients_(trained_, parts_.groups.tensor, parts_.groups.data),
      optimizer_(values_of(trained_), config.optimizer),
      tracer_(parts_.plan_context, {parts_.run_id, parts_.groups.coordinates}, parts_.groups.tracer,
              parts_.sink),
      updates_(trained_, parts_.groups.tensor, optimizer_, tracer_),
      runner_(config_, parts_.groups, model_, batches_, parts_.hooks),
      control_(
          parts_.groups.control, parts_.control_source, parts_.sink, tracer_, parts_.hooks,
          [this](const nlohmann::json& params, const trace::FileContents& contents,
                 std::int64_t done) {
            const auto forwards = [this](const control::PreviewPasses& passes) {
              return base::Result(runner_.run_preview(passes));
            };
            return control::run_preview(
                {forwards, parts_.prompts, /*has_batches=*/true, rehearsal()}, params, contents,
                done);
          },
          {.sets = &parts_.prompts,
           .interval = config.monitor.monitor_interval,
           .run =
               [this](const nlohmann::json& params, const trace::FileContents& contents,
                      std::int64_t done) {
                 const auto forward = [this](const control::PromptPass& pass) -> base::Status {
                   runner_.run_prompt(pass);
                   return {};
                 };
                 return control::run_prompt(forward, rehearsal(), params, contents, done);
               },
           .tokenize = parts_.tokenize},
          parts_.is_told_to_stop, saving()) {
  load();
  if (config_.monitor.monitor_generate_interval > 0) {
    responses_ = std::make_unique<PromptResponses>(config_, parts_.groups, model_, runner_,
                                                   parts_.hooks, parts_.response_text, parts_.sink);
  }
  if (!config.checkpoint.save.empty()) {
    checkpoints_.emplace(config_.checkpoint, parts_.groups,
                         TrainState{parameters_, trained_, optimizer_}, parts_.on_saved);
  }
  if (!config.export_tensors.empty()) export_steps_ = config::parse_steps(config.export_at).value();
  if (parts_.plan != nullptr) {
    tracer_.set_plan(parts_.plan);
    control_.plan_was_set();
  }
}

Trainer::~Trainer() = default;

void Trainer::run() {
  try {
    run_steps();
  } catch (const TrainError&) {
    // All ranks throw at the same step.
    if (checkpoints_) checkpoints_->finish();
    throw;
  }
}

void Trainer::run_steps() {
  const std::int64_t done = parts_.steps_done;
  config_.tracer.tensor_tracer_wait ? control_.wait_for_viewer(done)
                                    : notify_phase("training", done);
  std::int64_t number = done + 1;
  for (; begin_step(number); ++number) {
    if (number == done + 1) run_baseline();
    StepReport report = step(number);
    const bool is_last = number == config_.train_iters;
    if (config_.eval_interval > 0 && (number % config_.eval_interval == 0 || is_last))
      report.valid_loss = evaluate(number);
    if (report.valid_loss && std::isfinite(*report.valid_loss))
      last_valid_loss_ = {number, *report.valid_loss};
    run_prompts(number);
    notify(report);
    notify_interventions(number);
    if (config_.checkpoint.save_interval > 0 && number % config_.checkpoint.save_interval == 0)
      save(number);
    verify_sequences(parts_.groups);
  }
  save_last(number - 1);
  save_models();
  control_.finish(number - 1);
}

control::Rehearsal Trainer::rehearsal() const {
  return {parts_.hooks,
          parts_.groups.control,
          parts_.groups.tracer,
          {parts_.run_id, parts_.groups.coordinates},
          parts_.plan_context};
}

// False: the run has ended.
bool Trainer::begin_step(std::int64_t number) {
  if (comm::CollectiveLog* const log = parts_.groups.world.log()) log->begin_step(number);
  return number <= config_.train_iters && control_.before_step(number);
}

control::Saving Trainer::saving() {
  if (config_.checkpoint.save.empty()) return {};
  return {[this](std::int64_t done) { save(done); }, [this] { checkpoints_->poll(); }};
}

base::Status Trainer::read_parameters() {
  const comm::ProcessGroup& tensor = parts_.groups.tensor;
  if (parts_.state != nullptr)
    return load_state(*parts_.state, {parameters_, trained_, optimizer_}, tensor);
  return load_weights({parts_.weights.get(), parts_.adapters.get()}, parameters_, tensor);
}

void Trainer::load() {
  const comm::SoloWork work(parts_.groups.world, "reads the weights");
  const base::Status read = read_parameters();
  nn::round_main_weights(parameters_);
  parts_.state = parts_.weights = parts_.adapters = nullptr;
  if (comm::all_of(parts_.groups.world, read.ok())) return;
  throw TrainError(read ? "another rank cannot read the weights" : to_string(read.error()));
}

std::optional<double> Trainer::valid_loss_of(std::int64_t number) const {
  if (!last_valid_loss_ || last_valid_loss_->first != number) return std::nullopt;
  return last_valid_loss_->second;
}

void Trainer::save(std::int64_t number) {
  nlohmann::json facts;
  if (parts_.groups.world.rank() == 0) {
    facts = parts_.checkpoint_facts;
    // A run without a plan passes on the plan of the run before.
    if (tracer_.plan().number > 0)
      facts["plan"] = trace::to_json(tracer_.plan(), parts_.plan_context);
    if (parts_.hooks != nullptr) facts["programs"] = parts_.hooks->describe(number)["programs"];
  }
  checkpoints_->save(number, std::move(facts), valid_loss_of(number));
}

void Trainer::save_last(std::int64_t number) {
  if (!checkpoints_) return;
  if (number > parts_.steps_done && !has_saved(number)) save(number);
  if (!checkpoints_->finish()) throw StorageError("the last checkpoint was not saved");
}

void Trainer::save_models() const {
  const comm::SoloWork work(parts_.groups.world, "writes the model");
  base::Status model, adapters;
  if (!parts_.save_hf.path.empty())
    model = write_hf(parts_.save_hf, config_.model, parameters_, model_.adapters(), parts_.groups);
  if (!parts_.save_adapters.path.empty())
    adapters =
        write_adapters(parts_.save_adapters, config_.model, model_.adapters(), parts_.groups);
  for (const base::Status& status : {model, adapters})
    if (!status) throw StorageError(to_string(status.error()));
}

StepReport Trainer::step(std::int64_t number) {
  const auto begin = Clock::now();
  const trace::TracerSeconds before = tracer_.seconds();
  StepReport report;
  report.step = number;
  report.lr = optim::learning_rate(config_, number);
  gradients_.zero();
  report.loss = runner_.mean_over_replicas(
      runner_.mean_loss({.step = number, .drops = true, .has_backward = true}, &tracer_));
  gradients_.reduce();
  report.grad_norm = gradients_.norm();
  if (std::ranges::find(export_steps_, number) != export_steps_.end())
    export_step(number, report.loss);
  updates_.before_update(number);
  update(report);
  updates_.after_update(number);
  runner_.finish();
  const std::chrono::duration<double> seconds = Clock::now() - begin;
  const std::int64_t tokens = runner_.global_batch() * config_.model.seq_length;
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
  const bool is_finite = std::isfinite(report.loss) && std::isfinite(report.grad_norm) &&
                         gradients_.are_copies_finite();
  if (!comm::all_of(parts_.groups.world, is_finite)) {
    if (recover_from_nonfinite(report.step)) return;
    notify(report);
    repeat_step(report);
  }
  if (config_.optimizer.clip_grad > 0)
    gradients_.clip(report.grad_norm, config_.optimizer.clip_grad);
  optimizer_.step(report.lr);
  nn::round_main_weights(trained_);
}

// A weight that is not finite was damaged in an earlier step: the checkpoint before is good.
void Trainer::refuse_bad_weights(const StepReport& report) const {
  FiniteCheck check(model_.places());
  check.look_at_weights(parameters_);
  if (const auto found = check.first_finding(parts_.groups.world))
    throw TrainError(*found + " is not finite at step " + std::to_string(report.step));
}

// Collective over all ranks.
bool Trainer::has_saved(std::int64_t number) {
  return number == checkpoints_->last_step() && checkpoints_->finish();
}

// The optimizer has not moved, so the weights are those before the step. A repetition that is
// finite shows that they are good, and they are saved.
void Trainer::repeat_step(const StepReport& report) {
  runner_.finish();
  gradients_.zero();
  refuse_bad_weights(report);
  FiniteCheck check(model_.places());
  const double loss = runner_.mean_over_replicas(runner_.mean_loss(
      {.step = report.step, .drops = true, .has_backward = true, .check = &check}, nullptr));
  check.look_at_gradients(trained_);
  const auto found = check.first_finding(parts_.groups.world);
  gradients_.reduce();
  const double norm = gradients_.norm();
  const bool is_persistent =
      !comm::all_of(parts_.groups.world, !found && std::isfinite(loss) && std::isfinite(norm));
  std::string message = "loss " + std::to_string(report.loss) + " or gradient norm " +
                        std::to_string(report.grad_norm) + " is not finite at step " +
                        std::to_string(report.step) +
                        "; repeated from the same state, the step is ";
  message += is_persistent ? "not finite again (persistent): the first such number is in " +
                                 found.value_or("a sum over ranks")
                           : "finite (transient): a fault of this machine is likely";
  notify_viewers("log", {{"level", "error"}, {"message", message}});
  const std::int64_t done = report.step - 1;
  if (!is_persistent && checkpoints_ && done > parts_.steps_done && !has_saved(done)) save(done);
  throw NonFiniteError(message, is_persistent);
}

void Trainer::run_prompts(std::int64_t number) {
  const bool is_last = number == config_.train_iters;
  if (number % config_.monitor.monitor_interval == 0 || is_last)
    runner_.run_prompts(parts_.prompts, number, tracer_);
  if (responses_ != nullptr && (number % config_.monitor.monitor_generate_interval == 0 || is_last))
    responses_->run(parts_.prompts, number, tracer_);
}

// The projections of the prompts before the first step, which later ones are compared with.
void Trainer::run_baseline() {
  const std::vector<trace::PlanEntry>& entries = tracer_.plan().entries;
  if (std::ranges::none_of(entries, &trace::PlanEntry::takes_means)) return;
  runner_.run_prompts(parts_.prompts, parts_.steps_done, tracer_);
  const bool takes_responses = std::ranges::any_of(entries, [](const trace::PlanEntry& entry) {
    return entry.takes_means() && entry.responses;
  });
  if (takes_responses) responses_->run(parts_.prompts, parts_.steps_done, tracer_);
}

double Trainer::evaluate(std::int64_t number) {
  notify_phase("evaluating", number);
  double sum = 0.0, shares = 0.0;
  for (std::int64_t index = 0; index < config_.eval_iters; ++index) {
    const double share = batches_.valid_share(index, runner_.global_batch());
    sum += share * runner_.mean_loss({.step = number, .phase = trace::Phase::kEval, .index = index},
                                     &tracer_);
    shares += share;
  }
  notify_phase("training", number);
  return runner_.mean_over_replicas(shares > 0 ? sum / shares : 0.0);
}

TracerCost Trainer::total_cost() const {
  const comm::ProcessGroup& world = parts_.groups.world;
  return {comm::sum_over(world, tracer_.seconds().all),
          comm::sum_over(world, base::process_cpu_seconds())};
}

void Trainer::export_step(std::int64_t number, double loss) {
  const comm::SoloWork work(parts_.groups.world, "writes the exported tensors");
  const std::int64_t rows = runner_.global_batch();
  const data::Batch batch = batches_.train(number, rows, 0, rows);
  const ExportedStep exported{number, loss, batch, config_.model, parameters_};
  const base::Status status = write_export(config_.export_tensors, exported, parts_.groups);
  if (!status) throw StorageError(to_string(status.error()));
}

void Trainer::notify(const StepReport& report) {
  notify_viewers("step", to_json(report));
  if (parts_.on_step) parts_.on_step(report);
}

void Trainer::notify_viewers(std::string_view event, nlohmann::json params) const {
  if (parts_.sink == nullptr || parts_.groups.world.rank() != 0) return;
  parts_.sink->send_event(event, std::move(params));
}

void Trainer::notify_phase(const char* phase, std::int64_t step) const {
  notify_viewers("state", {{"phase", phase}, {"step", step}});
}

void Trainer::notify_interventions(std::int64_t number) const {
  if (parts_.hooks == nullptr) return;
  const auto report = parts_.hooks->report(number);
  const auto saved = parts_.hooks->take_saved();
  for (const nlohmann::json& one : saved) notify_viewers("saved", one);
  if (report) notify_viewers("applied", *report);
}

// A loss that is not finite ends the run, except if programs are in force, which may be the cause.
// Then the programs end and the step changes no weight. The same on every rank.
bool Trainer::recover_from_nonfinite(std::int64_t number) {
  if (parts_.hooks == nullptr || !parts_.hooks->give_up()) return false;
  gradients_.zero();
  const std::string message =
      "the loss or a gradient of step " + std::to_string(number) +
      " is not finite with programs in force: they are removed, and the step changes no weight";
  notify_viewers("log", {{"level", "error"}, {"message", message}});
  if (parts_.on_notice) parts_.on_notice(message);
  notify_viewers("interventions", parts_.hooks->describe(number + 1));
  return true;
}

}  // namespace tt::train
