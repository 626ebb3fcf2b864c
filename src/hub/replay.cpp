#include "replay.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>

namespace tt::hub {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr std::size_t kMessageBytes = std::size_t{4} << 20U;
constexpr std::size_t kLookBack = 50;    // steps whose records a seek shows where none is newer
constexpr std::size_t kMostShown = 100;  // steps that one request shows one by one
constexpr std::size_t kMostConnects = 10'000;  // of trainers, looked through for the run's first
constexpr auto kLongestGap = 2s;               // a pause of the run is not sat through
constexpr double kSlowest = 0.1;
constexpr double kFastest = 100;

base::Error wrong(const char* where, std::string message) {
  return {.code = "invalid_argument", .message = std::move(message), .where = where, .remedy = {}};
}

json programs_of(const json& object, const char* member) {
  const auto programs = object.is_object() ? object.find(member) : object.end();
  return programs != object.end() && programs->is_array() ? *programs : json::array();
}

// The facts are those of the last time that the trainer connected.
json first_programs(record::Recording& recording, const record::RunInfo& run) {
  for (const auto& [id, event] : recording.events({.limit = kMostConnects, .kind = "run"})) {
    if (event.run == run.run) {
      return programs_of(event.detail, "interventions");
    }
  }
  return programs_of(run.facts, "interventions");
}

}  // namespace

Replayer::Replayer(net::io_context& io, Room& room, record::Recording recording,
                   record::RunInfo run, double speed, bool paused)
    : Client(Role::kWorker, room.make_queue()),
      io_(io),
      room_(room),
      recording_(std::move(recording)),
      run_(std::move(run)),
      steps_(recording_.step_times(run_.run)),
      program_events_(recording_.program_events(run_.run)),
      first_programs_(first_programs(recording_, run_)),
      speed_(speed),
      paused_(paused),
      timer_(io) {}

Replayer::~Replayer() { room_.leave(*this); }

void Replayer::start() {
  room_.join(*this, Clock::now());
  json facts = run_.facts;
  if (facts.is_object()) {
    facts["interventions"] = first_programs_;
  }
  say(protocol::encode_request(1, "hello",
                               {{"versions", {protocol::kProtocolVersion}},
                                {"role", "worker"},
                                {"rank", 0U},
                                {"run", std::move(facts)}}));
  tell_state();
  schedule();
}

void Replayer::wake() {
  if (!woken_) {
    woken_ = true;
    net::post(io_, [this] { take_messages(); });
  }
}

void Replayer::take_messages() {
  woken_ = false;
  for (Outgoing out = queue().pop(); !out.empty(); out = queue().pop()) {
    const protocol::Message message = protocol::parse_message(*out.parts.front());
    if (const auto* request = std::get_if<protocol::Request>(&message)) {
      carry_out(*request);
    }
  }
}

void Replayer::carry_out(const protocol::Request& request) {
  base::Result<json> result = answer(request);
  say(result.ok() ? protocol::encode_result(request.id, std::move(result).value())
                  : protocol::encode_error(request.id, result.error()));
  tell_state();
  schedule();
}

base::Result<nlohmann::json> Replayer::answer(const protocol::Request& request) {
  base::Status done;
  if (request.method == "control.pause" || request.method == "control.continue") {
    set_paused(request.method == "control.pause");
  } else if (request.method == "control.step") {
    done = step(request.params);
  } else if (request.method == "replay.seek") {
    done = seek(request.params);
  } else if (request.method == "replay.speed") {
    done = set_speed(request.params);
  } else {
    done = base::Error{.code = "replay",
                       .message = "this is a recording: what was not traced cannot be asked for",
                       .where = request.method.substr(0, 64),
                       .remedy = {}};
  }
  if (!done.ok()) {
    return done.error();
  }
  return json{{"step", current_step()}, {"ranks", 0}};
}

void Replayer::set_paused(bool paused) {
  paused_ = paused;
  if (!paused && next_ == steps_.size()) {
    next_ = 0;  // once more from the beginning
    show_programs(0);
  }
}

base::Status Replayer::step(const json& params) {
  const json count = params.value("count", json(1U));
  if (!count.is_number_unsigned() || count < 1 || count > 1'000'000) {
    return wrong("count", "must be a whole number from 1 to 1000000");
  }
  paused_ = true;
  const std::size_t end = next_ + std::min(steps_.size() - next_, count.get<std::size_t>());
  if (end - next_ > kMostShown) {
    jump_to(end);
  }
  while (next_ < end) {
    show_step(next_++);
  }
  return {};
}

void Replayer::jump_to(std::size_t next) {
  next_ = next;
  if (next_ > 0) {
    show_latest(next_ - 1);
  }
  show_programs(current_step());
}

base::Status Replayer::seek(const json& params) {
  const json wanted = params.value("step", json());
  if (!wanted.is_number_unsigned()) {
    return wrong("step", "must be a whole number");
  }
  const auto beyond = std::upper_bound(steps_.begin(), steps_.end(),
                                       std::pair(wanted.get<std::uint64_t>(), UINT64_MAX));
  jump_to(static_cast<std::size_t>(beyond - steps_.begin()));
  return {};
}

base::Status Replayer::set_speed(const json& params) {
  const json speed = params.value("speed", json());
  if (!speed.is_number() || speed < kSlowest || speed > kFastest) {
    return wrong("speed", "must be a number from 0.1 to 100");
  }
  speed_ = speed.get<double>();
  return {};
}

void Replayer::say(std::string text) { room_.on_text(*this, text, Clock::now()); }

std::uint64_t Replayer::current_step() const { return next_ == 0 ? 0 : steps_[next_ - 1].first; }

void Replayer::tell_state() {
  const bool empty = steps_.empty();
  say(protocol::encode_notification("state", {{"phase", "replay"},
                                              {"step", current_step()},
                                              {"paused", paused_},
                                              {"speed", speed_},
                                              {"first_step", empty ? 0 : steps_.front().first},
                                              {"last_step", empty ? 0 : steps_.back().first}}));
}

void Replayer::schedule() {
  timer_.cancel();
  if (paused_ || next_ >= steps_.size()) {
    return;
  }
  std::chrono::nanoseconds gap{0};
  if (next_ > 0) {
    const std::uint64_t before = steps_[next_ - 1].second;
    const std::uint64_t at = steps_[next_].second;
    gap = std::min<std::chrono::nanoseconds>(
        kLongestGap, std::chrono::nanoseconds(at > before ? at - before : 0));
  }
  timer_.expires_after(std::chrono::duration_cast<std::chrono::nanoseconds>(gap / speed_));
  timer_.async_wait([this](beast::error_code failure) {
    if (!failure) {
      play_next();
    }
  });
}

void Replayer::play_next() {
  show_step(next_++);
  paused_ = next_ == steps_.size();
  tell_state();
  schedule();
}

void Replayer::show_step(std::size_t index) {
  const std::uint64_t step = steps_[index].first;
  show_program_events(step);
  std::vector<std::string> frames;
  record::FrameQuery query;
  query.run = run_.run;
  query.first_step = query.last_step = step;
  recording_.frames(query, [&](const record::Frame& frame) {
    frames.emplace_back(frame.record);
    return true;
  });
  send_frames(frames);
  for (record::StepRow& row : recording_.steps(run_.run, step, step, 1)) {
    say(protocol::encode_notification("step", std::move(row.params)));
  }
}

// What the trainer told of its programs in that step.
void Replayer::show_program_events(std::uint64_t step) {
  auto event = std::ranges::lower_bound(program_events_, step, {}, &record::ProgramEvent::step);
  for (; event != program_events_.end() && event->step == step; ++event) {
    say(protocol::encode_notification(event->kind, recording_.event_detail(event->id)));
  }
}

// The programs in force in that step, after a jump to it.
void Replayer::show_programs(std::uint64_t step) {
  if (program_events_.empty()) {
    return;
  }
  std::int64_t last = 0;
  for (const record::ProgramEvent& event : program_events_) {
    last = event.step <= step && event.kind == "interventions" ? event.id : last;
  }
  json programs =
      last > 0 ? programs_of(recording_.event_detail(last), "programs") : first_programs_;
  say(protocol::encode_notification(
      "interventions", {{"step", step}, {"programs", std::move(programs)}, {"reason", "replay"}}));
}

// What a viewer of the live run saw at that step: of each key the latest record.
void Replayer::show_latest(std::size_t index) {
  std::map<protocol::RecordKey, std::string> latest;
  record::FrameQuery query;
  query.run = run_.run;
  query.first_step = steps_[index - std::min(index, kLookBack)].first;
  query.last_step = steps_[index].first;
  recording_.frames(query, [&](const record::Frame& frame) {
    const auto record = protocol::read_record(frame.record, protocol::RecordCheck::kHeader);
    if (record.ok()) {
      latest[protocol::key_of(record.value().header)] = frame.record;
    }
    return true;
  });
  std::vector<std::string> frames;
  frames.reserve(latest.size());
  for (auto& [key, bytes] : latest) {
    frames.push_back(std::move(bytes));
  }
  send_frames(frames);
}

void Replayer::send_frames(const std::vector<std::string>& frames) {
  std::string message;
  for (const std::string& frame : frames) {
    if (!message.empty() && message.size() + frame.size() > kMessageBytes) {
      room_.on_binary(*this, message, Clock::now());
      message.clear();
    }
    message += frame;
  }
  if (!message.empty()) {
    room_.on_binary(*this, message, Clock::now());
  }
}

}  // namespace tt::hub
