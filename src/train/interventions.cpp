// What RunControl and Trainer do about programs.

#include <ATen/ATen.h>

#include <utility>

#include "tensor_tracer/train/run_control.h"
#include "tensor_tracer/train/trainer.h"

namespace tt::train {
namespace {

bool all_could(const comm::ProcessGroup& group, bool could) {
  at::Tensor ready = at::full({1}, could ? 1 : 0, at::kInt);
  group.all_reduce(ready);
  return ready.item<int>() == group.size();
}

}  // namespace

void RunControl::intervene(const trace::Request& request, std::int64_t next_step) {
  if (request.method == "intervention.preview") {
    if (preview_id_) {
      inlet_->refuse(request.id, {"busy", "another preview is under way", "", "ask again"});
      return;
    }
    preview_id_ = request.id;
    preview_params_ = request.params.dump();
    return;
  }
  auto answer = intervenor_->request(request.method, request.params, next_step);
  if (request.id == 0) return;
  if (!answer) {
    inlet_->refuse(request.id, answer.error());
  } else if (request.method == "intervention.set") {
    PendingSet& pending = pending_sets_[{request.params["name"], request.params["parameter"]}];
    if (pending.id != 0) {
      inlet_->refuse(pending.id, {"superseded", "a later value came before the step", "value", ""});
    }
    pending = {request.id, std::move(answer).value()};
  } else if (request.method == "intervention.apply") {
    inlet_->answer(
        request.id,
        {{"step", next_step}, {"ranks", control_.size()}, {"program", std::move(answer).value()}});
  } else {
    answer.value()["step"] = next_step;
    answer.value()["ranks"] = control_.size();
    inlet_->answer(request.id, std::move(answer).value());
  }
}

void RunControl::answer_sets(std::int64_t next_step) {
  for (auto& [key, pending] : std::exchange(pending_sets_, {})) {
    pending.answer["step"] = next_step;
    pending.answer["ranks"] = control_.size();
    inlet_->answer(pending.id, std::move(pending.answer));
  }
}

// A rank may fail where rank 0 did not, such as on a file that one machine lacks.
void RunControl::agree_on_programs(const std::string& changes, std::int64_t step) {
  const base::Status status = intervenor_->prepare(changes);
  const bool in_force = all_could(control_, status.ok());
  intervenor_->install(in_force);
  if (outlet_ == nullptr || control_.rank() != 0) return;
  if (!in_force) {
    outlet_->send_event("log", {{"level", "error"},
                                {"message",
                                 "a rank could not take the programs, perhaps it "
                                 "cannot read a file; those before stay in force"}});
  }
  outlet_->send_event("interventions", intervenor_->describe(step));
}

void RunControl::run_preview(std::int64_t next_step) {
  auto answer = preview_(nlohmann::json::parse(preview_params_), next_step - 1);
  if (!preview_id_) return;
  if (answer) {
    inlet_->answer(*preview_id_, std::move(answer).value());
  } else {
    inlet_->refuse(*preview_id_, answer.error());
  }
  preview_id_.reset();
}

trace::Intervenor* Trainer::acting(const trace::ForwardScope& scope,
                                   const at::Tensor& tokens) const {
  trace::Intervenor* intervenor = parts_.intervenor;
  return intervenor != nullptr && intervenor->begin_forward(scope, tokens) ? intervenor : nullptr;
}

void Trainer::end_interventions() const {
  if (parts_.intervenor != nullptr) parts_.intervenor->end_pass();
}

void Trainer::tell_interventions(std::int64_t number) const {
  if (parts_.intervenor == nullptr) return;
  const auto report = parts_.intervenor->report(number);
  const auto saved = parts_.intervenor->take_saved();
  if (parts_.outlet == nullptr || parts_.groups.world.rank() != 0) return;
  for (const nlohmann::json& one : saved) parts_.outlet->send_event("saved", one);
  if (report) parts_.outlet->send_event("applied", *report);
}

// A loss that is not finite ends the run, but not where programs may have made it so: they end, and
// the step changes no weight. The same on every rank.
bool Trainer::blames_programs(std::int64_t number) {
  if (parts_.intervenor == nullptr || !parts_.intervenor->give_up()) return false;
  gradients_.zero();
  if (parts_.outlet != nullptr && parts_.groups.world.rank() == 0) {
    parts_.outlet->send_event(
        "log", {{"level", "error"},
                {"message", "the loss of step " + std::to_string(number) +
                                " is not finite with programs in force: they are removed, and the "
                                "step changes no weight"}});
    parts_.outlet->send_event("interventions", parts_.intervenor->describe(number + 1));
  }
  return true;
}

// Forward only, without dropout, so that both passes differ by the program alone.
double Trainer::preview_loss(std::int64_t number, trace::Phase phase) {
  const at::NoGradGuard no_grad;
  double sum = 0.0;
  for (std::int64_t micro = 0; micro < num_micro_batches_; ++micro) {
    const std::int64_t first_row =
        (micro * parts_.groups.shape.data + parts_.groups.coordinates.data) *
        config_.micro_batch_size;
    const data::Batch batch =
        phase == trace::Phase::kTrain
            ? batches_.train(number, global_batch_, first_row, config_.micro_batch_size)
            : batches_.valid(0, global_batch_, first_row, config_.micro_batch_size);
    const trace::ForwardScope scope{number, micro, first_row, phase};
    const nn::ForwardContext context{tracer_, static_cast<std::uint64_t>(config_.seed),
                                     number,  first_row,
                                     false,   acting(scope, batch.tokens)};
    sum += model_.loss(batch.tokens, batch.labels, context).item<double>();
    end_interventions();
  }
  return mean_over_data(sum / static_cast<double>(num_micro_batches_));
}

base::Result<nlohmann::json> Trainer::preview(const nlohmann::json& params, std::int64_t done) {
  const std::int64_t number = std::max<std::int64_t>(done, 1);
  const base::Status status = parts_.intervenor->begin_preview(params);
  const bool could = all_could(parts_.groups.control, status.ok());
  if (!could) {
    if (status.ok()) parts_.intervenor->end_preview();
    if (!status.ok()) return status.error();
    return base::Error{"invalid_argument", "another rank cannot read a file", "program", ""};
  }
  const double train_off = preview_loss(number, trace::Phase::kTrain);
  const double valid_off = preview_loss(number, trace::Phase::kEval);
  parts_.intervenor->turn_preview(true);
  const double train_on = preview_loss(number, trace::Phase::kTrain);
  const double valid_on = preview_loss(number, trace::Phase::kEval);
  nlohmann::json writes = parts_.intervenor->preview_writes();
  parts_.intervenor->end_preview();
  return nlohmann::json{{"step", done},
                        {"batches",
                         {{{"batch", "train"}, {"loss_off", train_off}, {"loss_on", train_on}},
                          {{"batch", "valid"}, {"loss_off", valid_off}, {"loss_on", valid_on}}}},
                        {"writes", std::move(writes)}};
}

}  // namespace tt::train
