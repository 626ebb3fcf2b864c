#include "src/hub/legacy/legacy_session.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "src/hub/legacy/native_plan.h"
#include "src/hub/legacy/texts.h"

namespace tt::hub::dialect {
namespace {

using nlohmann::json;

constexpr protocol::TextLimits kFromHub{.bytes = std::size_t{16} << 20U, .depth = 64};
// Texts as frequent as records, of which this viewer needs nothing.
constexpr std::array<std::string_view, 3> kSkipped = {R"({"event":"step")", R"({"event":"saved")",
                                                      R"({"event":"applied")"};

std::string name_of(Dialect dialect) {
  return dialect == Dialect::kMegaScope ? "MegaScope client" : "Tensor Tracer client";
}

bool has_trainer(const RunState& run) {
  return run.facts().is_object() && run.phase() != "lost" && !run.has_ended();
}

// The text of a program in force; null if it is not in force.
json text_of_program(const RunState& run, std::string_view name) {
  for (const json& program : run.programs())
    if (member(program, "name") == name) return member(program, "text");
  return {};
}

json programs_without(const RunState& run, const json& name) {
  json left = json::array();
  std::ranges::copy_if(run.programs(), std::back_inserter(left),
                       [&](const json& program) { return member(program, "name") != name; });
  return left;
}

}  // namespace

LegacySession::LegacySession(Room& room, Client& client, UpdateEncoder& encoder, Dialect dialect,
                             std::function<void()> ask_for_work)
    : Client(Role::kViewer, room.make_queue(), client.may_control()),
      room_(room),
      client_(client),
      encoder_(encoder),
      dialect_(dialect),
      ask_for_work_(std::move(ask_for_work)) {
  room_.replace(client_, *this);
  const auto hello = call("hello", {{"versions", {protocol::kProtocolVersion}},
                                    {"role", "viewer"},
                                    {"client", name_of(dialect_)},
                                    {"window", 1},
                                    {"watch", false}});
  if (hello.ok()) {
    session_ = protocol::text_of(hello.value(), "session");
    on_event({"control", member(hello.value(), "control")});
    on_event({"state", member(hello.value(), "state")});
    on_event({"run", member(hello.value(), "run")});
  }
  client_.queue().draw_from(this);
  spdlog::info("legacy_viewer: {}: a {}", session_, name_of(dialect_));
}

void LegacySession::run_training_step(json message) {
  if (!has_trainer(run_) && !run_.has_ended()) {
    waiting_ = std::move(message);
    return;
  }
  const base::Status watched =
      run_.has_ended() ? base::Error{"no_trainer", "the run has finished"} : watch(message);
  if (!watched.ok()) client_.send(error_text(watched.error()));
}

base::Status LegacySession::watch(const json& message) {
  const auto disturbances = read_disturbances(dialect_, message);
  if (!disturbances) return disturbances.error();
  const auto plan = make_plan(dialect_, message, run_.facts());
  if (!plan) return plan.error();
  std::vector<protocol::TrainerRequest> requests;
  if (takes_control()) requests = missing_requests(plan.value(), disturbances.value());
  const auto step = std::make_shared<Step>(Step{.unanswered = requests.size()});
  unanswered_ += requests.size();
  for (const protocol::TrainerRequest& request : requests) {
    ask(
        protocol::row_of(request).method, protocol::params_of(request),
        [this, request, step](const base::Result<json>& outcome) {
          on_answer(request, *step, outcome);
        });
  }
  // Only now, after the requests: a run that waits for a viewer now starts, with this plan.
  subscribe();
  if (requests.empty()) start();
  return {};
}

// A recording cannot be changed: its viewers see what it holds.
bool LegacySession::takes_control() {
  return run_.phase() != "replay" &&
         (holds_lease() || call("control.claim", {{"name", name_of(dialect_)}}).ok());
}

bool LegacySession::holds_lease() const {
  return member(member(control_, "holder"), "session") == session_;
}

// The requests that put this plan and exactly these disturbances in force.
std::vector<protocol::TrainerRequest> LegacySession::missing_requests(
    const json& plan, const std::vector<Disturbance>& disturbances) const {
  const bool unsure = unanswered_ > 0;
  std::vector<protocol::TrainerRequest> requests;
  for (const auto& [name, program] : disturbances) {
    const json known = text_of_program(run_, name);
    if (program.empty() && (unsure || !known.is_null()))
      requests.emplace_back(protocol::RemovePrograms{.name = name});
    else if (!program.empty() && (unsure || known != program))
      requests.emplace_back(protocol::ApplyProgram{.name = name, .program = program});
  }
  if (unsure || member(member(run_.facts(), "plan"), "entries") != plan.at("entries"))
    requests.emplace_back(protocol::SetPlan{.plan = plan});
  return requests;
}

// To the points that the dialect has: other records would take their place in the queue.
void LegacySession::subscribe() {
  json points = json::array();
  for (const KnownPoint& known : points_of(dialect_)) {
    for (const json& point : member(run_.facts(), "points"))
      if (member(point, "name") == known.point) points.push_back(known.point);
  }
  if (points_ != points && call("subscribe", {{"points", points}}).ok())
    points_ = std::move(points);
}

void LegacySession::start() {
  if (holds_lease() && (run_.phase() == "paused" || run_.phase() == "waiting"))
    ask("control.continue", json::object());
  client_.send(start_text(run_.facts()));
  has_started_ = true;
}

std::uint64_t LegacySession::ask(std::string_view method, json params, OnAnswer on_answer) {
  const std::uint64_t id = ++last_id_;
  if (on_answer) on_answer_.emplace(id, std::move(on_answer));
  room_.on_text(*this, protocol::encode_request(id, method, std::move(params)), Clock::now());
  return id;
}

base::Result<json> LegacySession::call(std::string_view method, json params) {
  base::Result<json> answer = base::Error{"internal", "the hub gave no answer"};
  const std::uint64_t id =
      ask(method, std::move(params), [&](base::Result<json> given) { answer = std::move(given); });
  take_messages();
  on_answer_.erase(id);
  return answer;
}

void LegacySession::wake() {
  if (!std::exchange(is_awake_, true)) ask_for_work_();
}

void LegacySession::work() {
  is_awake_ = false;
  if (std::exchange(renews_lease_, false)) ask("ping", json::object());
  take_messages();
  if (!waiting_.is_null() && has_trainer(run_)) run_training_step(std::exchange(waiting_, nullptr));
  client_.wake();
}

// The client sends no heartbeats: its lease lasts as long as its connection.
void LegacySession::tick(Clock::time_point now) {
  client_.tick(now);
  if (holds_lease()) {
    renews_lease_ = true;
    wake();
  }
}

void LegacySession::take_messages() {
  for (Outgoing next = queue().pop(); !next.empty(); next = queue().pop()) {
    if (next.text) {
      on_message(*next.parts.front());
    } else {
      records_.assign(next.parts.begin(), next.parts.end());
      ++messages_;
    }
  }
}

void LegacySession::on_message(std::string_view text) {
  if (std::ranges::any_of(kSkipped, [&](auto prefix) { return text.starts_with(prefix); })) return;
  protocol::Message message = protocol::parse_message(text, kFromHub);
  if (auto* const answer = std::get_if<protocol::Answer>(&message)) {
    if (const auto asked = on_answer_.extract(answer->id); !asked.empty()) {
      asked.mapped()(std::visit([](auto& said) { return base::Result<json>(std::move(said)); },
                                answer->outcome));
    }
  } else if (const auto* const event = std::get_if<protocol::Notification>(&message)) {
    on_event(*event);
  }
}

void LegacySession::on_event(const protocol::Notification& event) {
  if (event.event == "run") {
    run_.set_facts(event.params);
    follow_plan(member(event.params, "plan"));
    if (points_) subscribe();
  } else if (event.event == "plan") {
    follow_plan(member(event.params, "plan"));
  } else if (event.event == "interventions") {
    run_.set_programs(member(event.params, "programs"));
  } else if (event.event == "state") {
    run_.set_state(event.params);
  } else if (event.event == "control") {
    control_ = event.params;
  }
}

void LegacySession::on_answer(const protocol::TrainerRequest& request, Step& step,
                              const base::Result<json>& outcome) {
  --unanswered_;
  if (outcome.ok()) {
    follow(request, outcome.value());
  } else if (!step.refused) {
    // A program that does not exist counts as removed.
    const std::string& code = outcome.error().code;
    const bool is_removal = std::holds_alternative<protocol::RemovePrograms>(request);
    if (!is_removal || code == "no_trainer" || code == "timeout" || code == "busy")
      step.refused = outcome.error();
  }
  if (--step.unanswered > 0) return;
  if (step.refused)
    client_.send(error_text(*step.refused));
  else
    start();
}

// The events say the same a moment later, but the next run_training_step may come before them.
void LegacySession::follow(const protocol::TrainerRequest& request, const json& result) {
  if (std::holds_alternative<protocol::SetPlan>(request)) {
    follow_plan(member(result, "plan"));
  } else if (const auto* const applied = std::get_if<protocol::ApplyProgram>(&request)) {
    json programs = programs_without(run_, applied->name);
    programs.push_back(member(result, "program"));
    run_.set_programs(programs);
  } else if (const auto* const removed = std::get_if<protocol::RemovePrograms>(&request)) {
    run_.set_programs(programs_without(run_, removed->name.value_or("")));
  }
}

void LegacySession::follow_plan(const json& plan) {
  run_.set_plan(plan);
  shown_.set_plan(plan);
}

std::optional<SharedBytes> LegacySession::next() {
  while (has_started_ && (!records_.empty() || take_records())) {
    const SharedBytes record = records_.front();
    std::optional<SharedBytes> text;
    if (shown_.shows(dialect_, *record)) {
      text = encoder_.update_of(dialect_, record);
      if (!text) return std::nullopt;
    }
    records_.pop_front();
    if (text) return text;
  }
  return std::nullopt;
}

bool LegacySession::take_records() {
  if (messages_ > queue().acknowledged()) {
    room_.on_text(*this, protocol::encode_notification("ack", {{"messages", messages_}}),
                  Clock::now());
  }
  take_messages();
  return !records_.empty();
}

}  // namespace tt::hub::dialect
