#include "tensor_tracer/control/run_control.h"

#include <ATen/ATen.h>

#include <chrono>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "src/control/broadcast.h"
#include "tensor_tracer/base/check.h"
#include "tensor_tracer/base/overloaded.h"
#include "tensor_tracer/comm/collectives.h"
#include "tensor_tracer/protocol/request.h"

namespace tt::control {
namespace {

using namespace std::chrono_literals;

constexpr auto kPoll = 50ms;
// While the run is held, the other ranks wait for a broadcast, which may have a limit.
constexpr auto kHeartbeat = 1s;

// The only message in a run without requests.
struct ControlMessage {
  std::int64_t step = 0;
  std::uint64_t demand = 0;  // the entries of the plan whose records somebody takes
  std::uint32_t plan_number = 0;
  std::uint32_t plan_bytes = 0;     // of the plan's JSON, which follows if the plan is new
  std::uint32_t program_bytes = 0;  // of the programs' JSON, which follows if they changed
  std::uint32_t preview_bytes = 0;  // of a preview's parameters; another message follows it
  std::uint32_t prompt_bytes = 0;   // of new prompt sets, and of a prompt to run
  bool stop = false;                // neither this step nor a later step runs
  bool again = false;               // held, or a preview or prompt runs; another message follows
  bool save = false;                // a checkpoint of the step before
};

}  // namespace

RunControl::RunControl(const comm::ProcessGroup& control, trace::ControlSource* control_source,
                       trace::TraceSink* sink, trace::Tracer& tracer,
                       trace::InterventionHooks* hooks, ProgramControl::Preview preview,
                       PromptControl::Prompts prompts, std::function<bool()> is_told_to_stop,
                       Saving saving)
    : control_(control),
      control_source_(control_source),
      sink_(sink),
      tracer_(tracer),
      programs_(control, control_source, sink, tracer.context(), hooks, std::move(preview)),
      prompts_(control, control_source, sink, tracer.context(), std::move(prompts)),
      is_told_to_stop_(std::move(is_told_to_stop)),
      saving_(std::move(saving)) {}

void RunControl::wait_for_viewer(std::int64_t done) {
  is_waiting_ = control_source_ != nullptr;
  if (is_waiting_) notify_state("waiting", done);
}

bool RunControl::before_step(std::int64_t step) {
  if (control_source_ != nullptr) count_single_step(step);
  bool again = true;
  look_around();
  while (again) {
    if (control_source_ != nullptr) decide(step);
    again = share_decision(step);
    if (programs_.has_preview()) programs_.run_preview(step);
    if (prompts_.has_run()) prompts_.run(step);
  }
  put_plan_in_force();
  return !must_stop_;
}

void RunControl::put_plan_in_force() {
  if (new_plan_ != nullptr) tracer_.set_plan(std::move(new_plan_));
  new_plan_ = nullptr;
}

void RunControl::look_around() {
  if (is_told_to_stop_ && is_told_to_stop_()) must_stop_ = true;
  if (saving_.report) saving_.report();
}

// Without a hub, tests of this process take the records.
std::uint64_t RunControl::demand() const {
  if (control_source_ == nullptr) return trace::Demand::kAll;
  return control_source_->demand().in((new_plan_ ? *new_plan_ : tracer_.plan()).number);
}

void RunControl::count_single_step(std::int64_t next_step) {
  if (single_steps_ == 0 || --single_steps_ > 0) return;
  notify_state("paused", next_step - 1);
  end_single_steps(next_step - 1);
}

void RunControl::take_requests() {
  for (trace::Request& request : control_source_->poll()) requests_.push_back(std::move(request));
}

void RunControl::decide(std::int64_t next_step) {
  disable_switched_off(next_step);
  const auto heartbeat = std::chrono::steady_clock::now() + kHeartbeat;
  while (true) {
    tracer_.deliver();
    // First the viewer, then the requests: those that came before the viewer act in this step.
    if (is_waiting_ && control_source_->has_viewer()) {
      is_waiting_ = false;
      notify_state("training", next_step - 1);
    }
    take_requests();
    for (const trace::Request& request : std::exchange(requests_, {}))
      carry_out(request, next_step);
    programs_.answer_sets(next_step);
    if (!is_held() || must_save_ || programs_.has_news() || prompts_.has_news() ||
        std::chrono::steady_clock::now() >= heartbeat)
      return;
    control_source_->wait(kPoll);
    look_around();
  }
}

// Entries that were switched off on this rank are disabled on all ranks.
void RunControl::disable_switched_off(std::int64_t next_step) {
  const std::vector<std::size_t> entries = tracer_.take_switched_off();
  if (entries.empty()) return;
  trace::Plan plan = plan_to_change();
  for (const std::size_t entry : entries) plan.entries[entry].enabled = false;
  notify_plan(put_plan(std::move(plan)), next_step);
}

void RunControl::carry_out(const trace::Request& request, std::int64_t next_step) {
  const std::uint64_t id = request.id;
  const auto refuse = [&](const auto& body) {
    control_source_->refuse(id, protocol::unknown_method(body.kRow.method));
  };
  const auto intervene_with = [&](const auto& body) {
    programs_.is_on() ? programs_.carry_out(id, body, next_step) : refuse(body);
  };
  std::visit(
      base::Overloaded{
          [&](const protocol::PauseRun&) { set_paused(id, true, next_step - 1); },
          [&](const protocol::ContinueRun&) { set_paused(id, false, next_step - 1); },
          [&](const protocol::StopRun&) { stop(id, next_step - 1); },
          [&](const protocol::SaveCheckpoint&) { save(id, next_step - 1); },
          [&](const protocol::StepRun& body) { begin_single_steps(id, body, next_step - 1); },
          [&](const protocol::SetPlan& body) { set_plan(id, body, next_step); },
          [&](const protocol::ApplyProgram& body) { intervene_with(body); },
          [&](const protocol::SetParameter& body) { intervene_with(body); },
          [&](const protocol::RemovePrograms& body) { intervene_with(body); },
          [&](const protocol::RevertPrograms& body) { intervene_with(body); },
          [&](const protocol::PreviewProgram& body) {
            programs_.is_on() ? programs_.take_preview(id, body) : refuse(body);
          },
          [&](const protocol::RunPrompt& body) {
            prompts_.is_on() ? prompts_.take_run(id, body) : refuse(body);
          },
          [&](const protocol::KeepPrompt& body) {
            prompts_.is_on() ? keep_prompt(id, body, next_step) : refuse(body);
          },
          [&](const protocol::RemovePrompt& body) {
            prompts_.is_on() ? remove_prompt(id, body, next_step) : refuse(body);
          },
          refuse},
      request.body);
}

void RunControl::answer_done(std::uint64_t id, std::int64_t done) {
  if (id != 0) control_source_->answer(id, {{"step", done}, {"ranks", control_.size()}});
}

void RunControl::set_paused(std::uint64_t id, bool paused, std::int64_t done) {
  single_steps_ = 0;
  end_single_steps(done);
  is_paused_ = paused;
  // The link lets go of a pause when it loses contact; only a person starts a run that waits.
  is_waiting_ = is_waiting_ && id == 0;
  if (!is_waiting_) notify_state(is_paused_ ? "paused" : "training", done);
  answer_done(id, done);
}

void RunControl::stop(std::uint64_t id, std::int64_t done) {
  end_single_steps(done);
  must_stop_ = true;
  answer_done(id, done);
}

void RunControl::save(std::uint64_t id, std::int64_t done) {
  if (!saving_.save) {
    control_source_->refuse(id, {"no_checkpoints", "this run saves no checkpoints", "",
                                 "start the run with --save FOLDER"});
    return;
  }
  must_save_ = true;
  answer_done(id, done);
}

void RunControl::begin_single_steps(std::uint64_t id, const protocol::StepRun& request,
                                    std::int64_t done) {
  end_single_steps(done);
  is_paused_ = true;
  is_waiting_ = false;
  single_steps_ = static_cast<std::int64_t>(request.count.value_or(1));
  single_steps_request_ = id;
  notify_state("training", done);
}

void RunControl::set_plan(std::uint64_t id, const protocol::SetPlan& request,
                          std::int64_t next_step) {
  auto plan = trace::parse_plan(request.plan, tracer_.context(), plan_number_ + 1);
  if (!plan) {
    control_source_->refuse(id, plan.error());
    return;
  }
  nlohmann::json form = put_plan(std::move(plan).value());
  control_source_->answer(id, {{"step", next_step}, {"ranks", control_.size()}, {"plan", form}});
  notify_plan(std::move(form), next_step);
}

trace::Plan RunControl::plan_to_change() const {
  trace::Plan plan = new_plan_ != nullptr ? *new_plan_ : tracer_.plan();
  plan.number = plan_number_ + 1;
  return plan;
}

nlohmann::json RunControl::put_plan(trace::Plan plan) {
  plan_number_ = plan.number;
  nlohmann::json form = trace::to_json(plan, tracer_.context());
  new_plan_ = std::make_shared<const trace::Plan>(std::move(plan));
  return form;
}

void RunControl::notify_plan(nlohmann::json form, std::int64_t step) const {
  sink_->send_event("plan", {{"plan", std::move(form)}, {"step", step}});
}

void RunControl::keep_prompt(std::uint64_t id, const protocol::KeepPrompt& request,
                             std::int64_t next_step) {
  auto plan = prompts_.keep(request, plan_to_change());
  if (!plan) {
    control_source_->refuse(id, plan.error());
    return;
  }
  prompts_.notify(next_step);
  nlohmann::json form = put_plan(std::move(plan).value());
  notify_plan(form, next_step);
  const std::uint32_t number = tracer_.context().prompt_sets.find(request.name).value();
  control_source_->answer(id, {{"step", next_step},
                               {"ranks", control_.size()},
                               {"prompt_set", number},
                               {"tokens", prompts_.set(number).prompts.front().tokens},
                               {"plan", std::move(form)}});
}

void RunControl::remove_prompt(std::uint64_t id, const protocol::RemovePrompt& request,
                               std::int64_t next_step) {
  auto plan = prompts_.remove(request.name, plan_to_change());
  if (!plan) {
    control_source_->refuse(id, plan.error());
    return;
  }
  prompts_.notify(next_step);
  nlohmann::json form = put_plan(std::move(plan).value());
  notify_plan(form, next_step);
  control_source_->answer(
      id, {{"step", next_step}, {"ranks", control_.size()}, {"plan", std::move(form)}});
}

void RunControl::end_single_steps(std::int64_t done) {
  if (!single_steps_request_) return;
  answer_done(*single_steps_request_, done);
  single_steps_request_.reset();
}

bool RunControl::share_decision(std::int64_t step) {
  std::string text;
  if (new_plan_ != nullptr) text = trace::to_json(*new_plan_, tracer_.context()).dump();
  ProgramControl::News news;
  std::uint32_t prompt_bytes = 0;
  if (control_.rank() == 0) {
    news = programs_.take_news(step);
    prompt_bytes = prompts_.take_news();
  }
  const bool again = is_held() || news.preview_bytes > 0 || prompts_.has_run();
  ControlMessage message{step,
                         demand(),
                         plan_number_,
                         static_cast<std::uint32_t>(text.size()),
                         news.program_bytes,
                         news.preview_bytes,
                         prompt_bytes,
                         must_stop_,
                         again,
                         std::exchange(must_save_, false)};
  broadcast(control_, &message, sizeof message);
  must_stop_ = message.stop;
  TT_CHECK_EQ(message.step, step);
  tracer_.set_demand(message.demand);
  prompts_.share(message.prompt_bytes);  // plans and programs may name the new sets
  if (message.plan_bytes > 0)
    share_plan(message.plan_number, std::move(text), message.plan_bytes, step);
  programs_.share({message.program_bytes, message.preview_bytes}, step);
  if (message.save) {
    put_plan_in_force();  // a checkpoint holds it, also in a pause
    saving_.save(step - 1);
  }
  return message.again;
}

void RunControl::share_plan(std::uint32_t number, std::string text, std::size_t size,
                            std::int64_t step) {
  broadcast(control_, text, size);
  trace::FileContents contents;
  if (new_plan_ != nullptr) contents = trace::contents_of(*new_plan_);
  trace::broadcast_contents(control_, contents, 0);
  if (control_.rank() != 0) {
    plan_number_ = number;
    trace::ReceivedFiles files(std::move(contents));
    trace::PlanContext context = tracer_.context();
    context.vectors = &files;
    auto plan = trace::parse_plan(nlohmann::json::parse(text), context, number);
    new_plan_ = plan ? std::make_shared<const trace::Plan>(std::move(plan).value()) : nullptr;
  }
  agree_on_plan(step);
}

// A rank may fail although rank 0 did not, for example if it has no memory left.
void RunControl::agree_on_plan(std::int64_t step) {
  if (comm::all_of(control_, new_plan_ != nullptr)) return;
  new_plan_ = nullptr;
  if (sink_ == nullptr) return;
  sink_->send_event("log",
                    {{"level", "error"},
                     {"message", "a rank could not take plan " + std::to_string(plan_number_) +
                                     "; the plan before it stays in force"}});
  notify_plan(trace::to_json(tracer_.plan(), tracer_.context()), step);
}

void RunControl::notify_state(const char* phase, std::int64_t step) const {
  if (sink_ != nullptr) sink_->send_event("state", {{"phase", phase}, {"step", step}});
}

void RunControl::finish(std::int64_t last_step) {
  if (control_source_ == nullptr) return;
  end_single_steps(last_step);
  take_requests();
  for (const trace::Request& request : std::exchange(requests_, {})) {
    if (request.id == 0) continue;
    control_source_->refuse(request.id, {"no_trainer", "training has finished", "", ""});
  }
  notify_state(must_stop_ ? "stopped" : "finished", last_step);
}

}  // namespace tt::control
