#include "tensor_tracer/control/program_control.h"

#include <utility>
#include <variant>

#include "src/control/broadcast.h"
#include "tensor_tracer/comm/collectives.h"
#include "tensor_tracer/protocol/request.h"

namespace tt::control {

ProgramControl::ProgramControl(const comm::ProcessGroup& control,
                               trace::ControlSource* control_source, trace::TraceSink* sink,
                               const trace::PlanContext& plan_context,
                               trace::InterventionHooks* hooks, Preview preview)
    : control_(control),
      control_source_(control_source),
      sink_(sink),
      plan_context_(plan_context),
      hooks_(hooks),
      preview_(std::move(preview)) {}

void ProgramControl::carry_out(std::uint64_t id, const protocol::ProgramRequest& request,
                               std::int64_t next_step) {
  auto answer = hooks_->request(request, next_step);
  if (id == 0) return;
  if (!answer) {
    control_source_->refuse(id, answer.error());
  } else if (const auto* set = std::get_if<protocol::SetParameter>(&request)) {
    keep_set(id, *set, std::move(answer).value());
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

void ProgramControl::keep_set(std::uint64_t id, const protocol::SetParameter& request,
                              nlohmann::json answer) {
  PendingSet& pending = pending_sets_[{request.name, request.parameter}];
  if (pending.id != 0) {
    control_source_->refuse(pending.id,
                            {"superseded", "a later value came before the step", "value", ""});
  }
  pending = {id, std::move(answer)};
}

void ProgramControl::answer_sets(std::int64_t next_step) {
  for (auto& [key, pending] : std::exchange(pending_sets_, {})) {
    pending.answer["step"] = next_step;
    pending.answer["ranks"] = control_.size();
    control_source_->answer(pending.id, std::move(pending.answer));
  }
}

void ProgramControl::take_preview(std::uint64_t id, const protocol::PreviewProgram& request) {
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

base::Result<trace::FileContents> ProgramControl::read_preview_files(
    const protocol::PreviewProgram& request) const {
  trace::FileContents of_plan;
  if (request.plan) {
    const auto plan = trace::parse_plan(*request.plan, plan_context_, 0);
    if (!plan) return plan.error();
    of_plan = trace::contents_of(plan.value());
  }
  auto contents = hooks_->read_files(protocol::params_of(request));
  if (contents) contents.value().vectors.merge(of_plan.vectors);
  return contents;
}

bool ProgramControl::has_news() const {
  return preview_id_ || (hooks_ != nullptr && hooks_->has_changes());
}

ProgramControl::News ProgramControl::take_news(std::int64_t step) {
  if (hooks_ != nullptr) changes_ = hooks_->take_changes(step);
  return {static_cast<std::uint32_t>(changes_.text.size()),
          static_cast<std::uint32_t>(preview_params_.size())};
}

void ProgramControl::share(const News& news, std::int64_t step) {
  if (news.program_bytes > 0) {
    broadcast(control_, changes_.text, news.program_bytes);
    trace::broadcast_contents(control_, changes_.contents, 0);
    agree_on_changes(step);
    changes_ = {};
  }
  if (news.preview_bytes > 0) {
    broadcast(control_, preview_params_, news.preview_bytes);
    trace::broadcast_contents(control_, preview_contents_, 0);
  }
}

// A rank may fail although rank 0 did not, for example if it has no memory left.
void ProgramControl::agree_on_changes(std::int64_t step) {
  const base::Status status = hooks_->prepare(changes_);
  const bool in_force = comm::all_of(control_, status.ok());
  hooks_->install(in_force);
  if (sink_ == nullptr || control_.rank() != 0) return;
  if (!in_force) {
    sink_->send_event(
        "log", {{"level", "error"},
                {"message", "a rank could not take the programs; those before stay in force"}});
  }
  sink_->send_event("interventions", hooks_->describe(step));
}

void ProgramControl::run_preview(std::int64_t next_step) {
  auto answer = preview_(nlohmann::json::parse(preview_params_), preview_contents_, next_step - 1);
  preview_params_.clear();
  preview_contents_ = {};
  if (!preview_id_) return;
  if (answer)
    control_source_->answer(*preview_id_, std::move(answer).value());
  else
    control_source_->refuse(*preview_id_, answer.error());
  preview_id_.reset();
}

}  // namespace tt::control
