#include "src/hub/process/replay.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <map>
#include <optional>
#include <utility>

#include "tensor_tracer/base/overloaded.h"
#include "tensor_tracer/protocol/json_members.h"

namespace tt::hub {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using protocol::member;

// The limit of one message, which stands for one pass of a trainer: a viewer's queue takes a
// message whole.
constexpr std::size_t kMessageBytes = std::size_t{64} << 20U;
constexpr std::size_t kLookBack = 50;         // steps whose latest records a seek shows
constexpr std::size_t kMaxShown = 100;        // steps that one request shows one by one
constexpr std::size_t kMaxConnects = 10'000;  // connects, searched for the run's first
constexpr auto kLongestGap = 2s;              // a longer pause of the run is shortened
constexpr auto kGather = 10ms;                // the seeks of a dragged slider are collected

json list_of(json value) { return value.is_array() ? std::move(value) : json::array(); }

// `run.facts` are from the last time that the trainer connected, so this looks for the first
// connect.
json first_in_force(record::Recording& recording, const record::RunInfo& run) {
  json facts = run.facts;
  for (auto& [id, event] : recording.events({.limit = kMaxConnects, .kind = "run"})) {
    if (event.run == run.run) {
      facts = std::move(event.detail);
      break;
    }
  }
  const json& sets = member(facts, "prompt_sets");
  return {{"plan", member(facts, "plan")},
          {"programs", member(facts, "interventions")},
          {"prompt_sets", sets.is_array() ? sets : member(run.facts, "prompt_sets")},
          {"step", 0}};
}

}  // namespace

Replayer::Replayer(net::io_context& io, Room& room, record::Recording recording,
                   record::RunInfo run, double speed, bool paused)
    : Client(Role::kWorker, room.make_queue()),
      room_(room),
      recording_(std::move(recording)),
      run_(std::move(run)),
      steps_(recording_.step_times(run_.run)),
      events_(recording_.trainer_events(run_.run)),
      first_(first_in_force(recording_, run_)),
      plan_(first_.at("plan")),
      prompt_sets_(list_of(first_.at("prompt_sets"))),
      speed_(speed),
      paused_(paused),
      timer_(io),
      gathering_(io) {}

Replayer::~Replayer() { room_.leave(*this); }

void Replayer::start() {
  room_.join(*this, Clock::now());
  json facts = run_.facts;
  if (facts.is_object()) {
    facts["plan"] = plan_;
    facts["interventions"] = list_of(first_.at("programs"));
    facts["prompt_sets"] = prompt_sets_;
  }
  say(protocol::encode_request(1, "hello",
                               {{"versions", {protocol::kProtocolVersion}},
                                {"role", "worker"},
                                {"rank", 0U},
                                {"run", std::move(facts)}}));
  notify_state();
  schedule();
}

void Replayer::wake() {
  if (woken_) return;
  woken_ = true;
  gathering_.expires_after(kGather);
  gathering_.async_wait([this](beast::error_code failure) {
    if (!failure) take_messages();
  });
}

// Of several seeks in a row, only the last one is shown.
void Replayer::take_messages() {
  woken_ = false;
  std::optional<Asked> waiting;
  const auto go_on = [&](std::optional<Asked> next) {
    const auto* seek = waiting ? std::get_if<protocol::SeekReplay>(&waiting->request) : nullptr;
    if (seek != nullptr && next && std::holds_alternative<protocol::SeekReplay>(next->request)) {
      const std::uint64_t step = step_before(index_after(seek->step));
      say(protocol::encode_result(waiting->id, {{"step", step}, {"ranks", 0}}));
    } else if (waiting) {
      carry_out(*waiting);
    }
    waiting = std::move(next);
  };
  for (Outgoing out = queue().pop(); !out.empty(); out = queue().pop()) {
    const protocol::Message message = protocol::parse_message(*out.parts.front());
    if (const auto* asked = std::get_if<protocol::Request>(&message)) {
      // The room has already checked this request.
      go_on(
          Asked{asked->id, protocol::parse_trainer_request(asked->method, asked->params).value()});
    }
  }
  go_on({});
}

void Replayer::carry_out(const Asked& asked) {
  const base::Status done = try_to([&] { return obey(asked.request); });
  say(done.ok() ? protocol::encode_result(asked.id, {{"step", current_step()}, {"ranks", 0}})
                : protocol::encode_error(asked.id, done.error()));
  notify_state();
}

base::Status Replayer::try_to(const std::function<base::Status()>& show) {
  try {
    return show();
  } catch (const std::exception& failure) {
    const base::Error error{
        .code = "internal",
        .message = std::string("the recording cannot be read: ") + failure.what(),
        .remedy = "check it with `sqlite3 FILE 'PRAGMA integrity_check'`"};
    paused_ = true;
    timer_.cancel();
    spdlog::error("{}", base::to_string(error));
    say(protocol::encode_notification("log",
                                      {{"level", "error"}, {"message", base::to_string(error)}}));
    return error;
  }
}

base::Status Replayer::obey(const protocol::TrainerRequest& request) {
  base::Status status;
  std::visit(base::Overloaded{
                 [&](const protocol::PauseRun&) { set_paused(true); },
                 [&](const protocol::ContinueRun&) { set_paused(false); },
                 [&](const protocol::StepRun& asked) { step(asked.count.value_or(1)); },
                 [&](const protocol::SeekReplay& asked) {
                   jump_to(index_after(asked.step));
                   schedule();
                 },
                 [&](const protocol::SetReplaySpeed& asked) { set_speed(asked.speed); },
                 [&](const auto& other) {
                   status = base::Error{
                       "replay", "this is a recording: what was not traced cannot be asked for",
                       std::string(other.kRow.method)};
                 }},
             request);
  return status;
}

std::size_t Replayer::index_after(std::uint64_t step) const {
  const auto beyond = std::upper_bound(steps_.begin(), steps_.end(), std::pair(step, UINT64_MAX));
  return static_cast<std::size_t>(beyond - steps_.begin());
}

void Replayer::set_paused(bool paused) {
  const bool is_over = next_ == steps_.size();
  if (paused == paused_ && (paused || !is_over)) return;
  paused_ = paused;
  if (!paused && is_over) jump_to(0);  // again from the beginning
  schedule();
}

void Replayer::step(std::size_t count) {
  paused_ = true;
  schedule();
  const std::size_t end = next_ + std::min(steps_.size() - next_, count);
  if (end - next_ > kMaxShown) jump_to(end);
  while (next_ < end) show_step(next_++);
}

void Replayer::jump_to(std::size_t next) {
  next_ = next;
  std::vector<json> past;
  for (record::StepRow& row : recording_.steps(run_.run, 0, current_step(), kMaxSteps))
    past.push_back(std::move(row.params));
  room_.replace_past(past);
  show_prompts();
  show_plan();
  show_latest();
  show_programs();
  show_alarms();
}

void Replayer::set_speed(double speed) {
  const auto passed = (Clock::now() - gap_since_) * speed_;
  gap_ -= std::min(gap_, std::chrono::duration_cast<std::chrono::nanoseconds>(passed));
  speed_ = speed;
  start_timer();
}

void Replayer::say(std::string text) { room_.on_text(*this, text, Clock::now()); }

std::uint64_t Replayer::step_before(std::size_t index) const {
  return index == 0 ? 0 : steps_[index - 1].first;
}

void Replayer::notify_state() {
  const bool empty = steps_.empty();
  say(protocol::encode_notification("state", {{"phase", "replay"},
                                              {"step", current_step()},
                                              {"paused", paused_},
                                              {"speed", speed_},
                                              {"first_step", empty ? 0 : steps_.front().first},
                                              {"last_step", empty ? 0 : steps_.back().first}}));
}

void Replayer::schedule() {
  gap_ = {};
  if (next_ > 0 && next_ < steps_.size()) {
    const std::uint64_t before = steps_[next_ - 1].second;
    const std::uint64_t at = steps_[next_].second;
    gap_ = std::min<std::chrono::nanoseconds>(
        kLongestGap, std::chrono::nanoseconds(at > before ? at - before : 0));
  }
  start_timer();
}

void Replayer::start_timer() {
  timer_.cancel();
  gap_since_ = Clock::now();
  if (paused_ || next_ >= steps_.size()) return;
  timer_.expires_after(std::chrono::duration_cast<std::chrono::nanoseconds>(gap_ / speed_));
  timer_.async_wait([this](beast::error_code failure) {
    // The timer may have expired before it was cancelled.
    if (!failure && !paused_ && next_ < steps_.size()) play_next();
  });
}

void Replayer::play_next() {
  const base::Status shown = try_to([this]() -> base::Status {
    show_step(next_++);
    return {};
  });
  paused_ = !shown.ok() || next_ == steps_.size();
  notify_state();
  schedule();
}

void Replayer::show_step(std::size_t index) {
  const std::uint64_t step = steps_[index].first;
  show_events(index);
  record::FrameQuery query;
  query.run = run_.run;
  query.first_step = query.last_step = step;
  send_frames(query);
  for (record::StepRow& row : recording_.steps(run_.run, step, step, 1))
    say(protocol::encode_notification("step", std::move(row.params)));
}

// Shows the trainer's events since the previous step.
void Replayer::show_events(std::size_t index) {
  auto event = index == 0 ? events_.begin()
                          : std::ranges::upper_bound(events_, step_before(index), {},
                                                     &record::TrainerEvent::step);
  for (; event != events_.end() && event->step <= steps_[index].first; ++event) {
    json detail = recording_.event_detail(event->id);
    if (event->kind == "plan")
      plan_ = member(detail, "plan");
    else if (event->kind == "prompts")
      prompt_sets_ = list_of(member(detail, "prompt_sets"));
    say(protocol::encode_notification(event->kind, std::move(detail)));
  }
}

json Replayer::in_force(const char* kind, std::uint64_t step) {
  std::int64_t last = 0;
  for (const record::TrainerEvent& event : events_)
    last = event.step <= step && event.kind == kind ? event.id : last;
  return last > 0 ? recording_.event_detail(last) : first_;
}

// Shows the plan after a jump.
void Replayer::show_plan() {
  const json params = in_force("plan", current_step());
  const json before = std::exchange(plan_, member(params, "plan"));
  if (plan_ != before && plan_.is_object()) {
    say(protocol::encode_notification(
        "plan", {{"plan", plan_}, {"step", protocol::natural(params, "step").value_or(0)}}));
  }
}

// Shows the prompt sets after a jump: the plan and the records name them.
void Replayer::show_prompts() {
  const std::uint64_t step = current_step();
  json sets = list_of(member(in_force("prompts", step), "prompt_sets"));
  if (sets != std::exchange(prompt_sets_, sets)) {
    say(protocol::encode_notification("prompts",
                                      {{"step", step}, {"prompt_sets", std::move(sets)}}));
  }
}

void Replayer::show_programs() {
  const std::uint64_t step = current_step();
  json programs = list_of(member(in_force("interventions", step), "programs"));
  say(protocol::encode_notification(
      "interventions", {{"step", step}, {"programs", std::move(programs)}, {"reason", "replay"}}));
}

// Shows the alarms after a jump: each one as its last event states it.
void Replayer::show_alarms() {
  const std::uint64_t step = current_step();
  std::map<std::string, json> alarms;  // by name
  for (const record::TrainerEvent& event : events_) {
    if (event.kind != "alarm" || event.step > step) continue;
    const json detail = recording_.event_detail(event.id);
    const json& alarm = member(detail, "alarm");
    if (protocol::text_of(detail, "change") == "removed")
      alarms.erase(protocol::text_of(alarm, "name"));
    else
      alarms[protocol::text_of(alarm, "name")] = alarm;
  }
  json list = json::array();
  for (auto& [name, alarm] : alarms) list.push_back(std::move(alarm));
  say(protocol::encode_notification("alarms", {{"step", step}, {"alarms", std::move(list)}}));
}

// Shows the records that a viewer of the live run saw at the current step: the latest record of
// each key, of the plan in force.
void Replayer::show_latest() {
  if (next_ == 0) return;
  record::FrameQuery query;
  query.run = run_.run;
  query.first_step = steps_[next_ - std::min(next_, kLookBack)].first;
  query.last_step = current_step();
  query.only_latest = true;
  if (const auto number = protocol::natural(plan_, "number"); number && *number <= UINT32_MAX)
    query.plan = static_cast<std::uint32_t>(*number);
  send_frames(query);
}

void Replayer::send_frames(const record::FrameQuery& query) {
  std::string message;
  const auto send = [&] {
    if (!message.empty()) {
      room_.on_binary(*this, message, Clock::now());
      message.clear();
    }
  };
  recording_.frames(query, [&](const record::Frame& frame) {
    if (message.size() + frame.record.size() > kMessageBytes) {
      send();
    }
    message += frame.record;
    return true;
  });
  send();
}

}  // namespace tt::hub
