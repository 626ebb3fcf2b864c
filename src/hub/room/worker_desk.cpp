#include "src/hub/room/worker_desk.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <memory>

#include "src/hub/room/run_facts.h"
#include "tensor_tracer/hub/event_log.h"
#include "tensor_tracer/protocol/json_members.h"
#include "tensor_tracer/protocol/request.h"

namespace tt::hub {
namespace {

using nlohmann::json;
using Names = std::array<std::string_view, 10>;

constexpr Names kPassedOn = {"step",  "plan",    "prompts", "interventions", "applied",
                             "saved", "dropped", "log",     "checkpoint",    "response"};
// The hub makes these events itself. Only a replay sends them.
constexpr Names kOfReplays = {"alarm", "alarms", "projections"};
// The leader of stage 0 sends these for all ranks.
constexpr Names kFromTrainerOnly = {"state",   "step",          "plan",
                                    "prompts", "interventions", "response"};
// Other threads than the step's thread send these events, so they do not show that the step
// advances.
constexpr Names kFromOtherThreads = {"log", "dropped", "link"};

bool contains(const Names& names, std::string_view event) {
  return !event.empty() && std::ranges::find(names, event) != names.end();
}

// Two events with the same key replace one another: a slow viewer gets the later one.
std::string data_key(const protocol::Notification& notification) {
  json key = json::array({notification.event});
  if (notification.event == "saved" || notification.event == "response")
    for (const char* member : {"program", "name", "layer", "phase", "prompt_set", "prompt"})
      key.push_back(notification.params.value(member, json()));
  return protocol::encode_json(std::move(key));
}

}  // namespace

base::Status WorkerDesk::greet(Client& client, Member& member, const protocol::Request& message,
                               Clock::time_point now) {
  auto parsed = protocol::parse_worker_hello(message.params);
  if (!parsed) return parsed.error();
  protocol::WorkerHello& hello = parsed.value();
  if (hello.role != "worker") return base::invalid_argument("role", "must be \"worker\" here");
  if (base::Status known = check_facts(hello.run); !known.ok()) return known;
  if (base::Status fits = parts_.check(hello); !fits.ok()) return fits;
  member.greeted = true;
  member.rank = hello.rank.value_or(0);
  const LogRank about(member.rank);
  spdlog::info("worker_joined: {}", member.session);
  json result = {
      {"version", protocol::kProtocolVersion}, {"session", member.session}, {"hub", TT_VERSION}};
  client.send(protocol::encode_result(message.id, std::move(result)));
  if (member.rank == 0) spdlog::info("trainer_joined: {} is the trainer", member.session);
  parts_.take(client, hello, now);
  demand_.update();
  return {};
}

void WorkerDesk::on_notification(Client& client, Member& member,
                                 const protocol::Notification& notification, std::string_view text,
                                 Clock::time_point now) {
  const std::string& event = notification.event;
  member.moved = contains(kFromOtherThreads, event) ? member.moved : now;
  const auto stage = leaders_.stage_of(client);
  const bool from_trainer = stage == 0;
  if (!from_trainer && contains(kFromTrainerOnly, event)) return;
  if (event == "link") {
    member.link = parse_link(notification.params);
    return;
  }
  const auto shared = std::make_shared<const std::string>(text);
  if (event == "state") {
    if (run_.set_state(notification.params)) {
      audit_log_.state(notification.params);
      roster_.broadcast(shared);
      alarms_.end_step({}, now);
    }
    return;
  }
  if (contains(kOfReplays, event)) {
    alarms_.replay(event, notification.params);
    return;
  }
  if (!contains(kPassedOn, event)) {
    spdlog::debug("unknown_event: {}: {}", member.session, event.substr(0, 64));
    return;
  }
  if (event == "dropped") {
    metrics_.on_dropped(notification.params);
    if (stage)
      leaders_.on_dropped(*stage, protocol::natural(notification.params, "records").value_or(0));
  }
  if (from_trainer) follow_trainer(notification, shared, now);
  pass_on(notification, shared);
}

void WorkerDesk::follow_trainer(const protocol::Notification& notification, const SharedBytes& text,
                                Clock::time_point now) {
  const json& params = notification.params;
  if (notification.event == "step") {
    metrics_.on_step(params);
    run_.add_step(params, text);
    audit_log_.step(params);
    alarms_.end_step(params, now);
  } else if (notification.event == "plan") {
    run_.set_plan(params.value("plan", json()));
    alarms_.follow_run();
  } else if (notification.event == "prompts") {
    run_.set_prompt_sets(params.value("prompt_sets", json()));
    audit_log_.renew_facts(run_.facts());
  } else if (notification.event == "interventions") {
    run_.set_programs(params.value("programs", json()));
  } else if (notification.event == "applied") {
    metrics_.on_applied(params);
  }
}

void WorkerDesk::pass_on(const protocol::Notification& notification, const SharedBytes& text) {
  const std::string& event = notification.event;
  // These events are as frequent as records. A slow viewer or a slow disk loses them as it loses
  // records.
  if (event == "applied" || event == "saved") {
    audit_log_.data(event, notification.params, text->size());
    roster_.broadcast_data(data_key(notification), text);
    return;
  }
  if (event != "step") audit_log_.event(event, notification.params);
  // A slow viewer loses responses, and finds them in the audit trail.
  if (event == "response") return roster_.broadcast_data(data_key(notification), text);
  roster_.broadcast(text);
}

}  // namespace tt::hub
