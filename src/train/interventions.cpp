// What RunControl and Trainer do about programs.

#include <ATen/ATen.h>

#include <utility>

#include "src/train/all_ranks_ok.h"
#include "tensor_tracer/train/run_control.h"
#include "tensor_tracer/train/trainer.h"

namespace tt::train {

void RunControl::intervene(std::uint64_t id, const protocol::ProgramRequest& request,
                           std::int64_t next_step) {
  auto answer = hooks_->request(request, next_step);
  if (id == 0) return;
  if (!answer) {
    control_source_->refuse(id, answer.error());
  } else if (const auto* set = std::get_if<protocol::SetParameter>(&request)) {
    PendingSet& pending = pending_sets_[{set->name, set->parameter}];
    if (pending.id != 0) {
      control_source_->refuse(pending.id,
                              {"superseded", "a later value came before the step", "value", ""});
    }
    pending = {id, std::move(answer).value()};
  } else if (std::holds_alternative<protocol::ApplyProgram>(request)) {
    control_source_->answer(
        id,
        {{"step", next_step}, {"ranks", control_.size()}, {"program", std::move(answer).value()}});
  } else {
    answer.value()["step"] = next_step;
    answer.value()["ranks"] = control_.size();
    control_source_->answer(id, std::move(answer).value());
  }
}

void RunControl::take_preview(std::uint64_t id, const protocol::PreviewProgram& request) {
  if (preview_id_) {
    control_source_->refuse(id, {"busy", "another preview is under way", "", "ask again"});
    return;
  }
  auto contents = read_preview_files(request);
  if (!contents) {
    control_source_->refuse(id, contents.error());
    return;
  }
  preview_id_ = id;
  preview_params_ = protocol::params_of(request).dump();
  preview_contents_ = std::move(contents).value();
}

base::Result<trace::FileContents> RunControl::read_preview_files(
    const protocol::PreviewProgram& request) const {
  trace::FileContents of_plan;
  if (request.plan) {
    const auto plan = trace::parse_plan(*request.plan, tracer_.context(), 0);
    if (!plan) return plan.error();
    of_plan = trace::contents_of(plan.value());
  }
  auto contents = hooks_->read_files(protocol::params_of(request));
  if (contents) contents.value().vectors.merge(of_plan.vectors);
  return contents;
}

void RunControl::answer_sets(std::int64_t next_step) {
  for (auto& [key, pending] : std::exchange(pending_sets_, {})) {
    pending.answer["step"] = next_step;
    pending.answer["ranks"] = control_.size();
    control_source_->answer(pending.id, std::move(pending.answer));
  }
}

// A rank may fail where rank 0 did not, such as for want of memory.
void RunControl::agree_on_programs(const trace::ProgramChanges& changes, std::int64_t step) {
  const base::Status status = hooks_->prepare(changes);
  const bool in_force = all_ranks_ok(control_, status.ok());
  hooks_->install(in_force);
  if (sink_ == nullptr || control_.rank() != 0) return;
  if (!in_force) {
    sink_->send_event(
        "log", {{"level", "error"},
                {"message", "a rank could not take the programs; those before stay in force"}});
  }
  sink_->send_event("interventions", hooks_->describe(step));
}

void RunControl::run_preview(std::int64_t next_step) {
  auto answer = preview_(nlohmann::json::parse(preview_params_), preview_contents_, next_step - 1);
  if (!preview_id_) return;
  if (answer) {
    control_source_->answer(*preview_id_, std::move(answer).value());
  } else {
    control_source_->refuse(*preview_id_, answer.error());
  }
  preview_id_.reset();
}

trace::InterventionHooks* Trainer::acting(const trace::ForwardScope& scope,
                                          const at::Tensor& tokens) const {
  trace::InterventionHooks* hooks = parts_.hooks;
  return hooks != nullptr && hooks->begin_forward(scope, tokens) ? hooks : nullptr;
}

void Trainer::end_interventions() const {
  if (parts_.hooks != nullptr) parts_.hooks->end_pass();
}

void Trainer::notify_interventions(std::int64_t number) const {
  if (parts_.hooks == nullptr) return;
  const auto report = parts_.hooks->report(number);
  const auto saved = parts_.hooks->take_saved();
  if (parts_.sink == nullptr || parts_.groups.world.rank() != 0) return;
  for (const nlohmann::json& one : saved) parts_.sink->send_event("saved", one);
  if (report) parts_.sink->send_event("applied", *report);
}

// A loss that is not finite ends the run, but not where programs may have made it so: they end, and
// the step changes no weight. The same on every rank.
bool Trainer::recover_from_nonfinite(std::int64_t number) {
  if (parts_.hooks == nullptr || !parts_.hooks->give_up()) return false;
  gradients_.zero();
  if (parts_.sink != nullptr && parts_.groups.world.rank() == 0) {
    parts_.sink->send_event(
        "log", {{"level", "error"},
                {"message", "the loss of step " + std::to_string(number) +
                                " is not finite with programs in force: they are removed, and the "
                                "step changes no weight"}});
    parts_.sink->send_event("interventions", parts_.hooks->describe(number + 1));
  }
  return true;
}

}  // namespace tt::train
