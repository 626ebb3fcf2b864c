#include "src/hub/room/room.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "tensor_tracer/protocol/json_members.h"

namespace tt::hub {
namespace {

using nlohmann::json;

constexpr protocol::TextLimits kViewerLimits{};
// A `saved` event has up to 65,536 numbers; the run's facts hold every program in force.
constexpr protocol::TextLimits kWorkerLimits{.bytes = std::size_t{4} << 20U, .depth = 32};
// Phases without further steps.
constexpr std::array<std::string_view, 5> kResting = {"paused", "waiting", "finished", "stopped",
                                                      "replay"};

bool knows_version(const json& params) {
  const json& versions = protocol::member(params, "versions");
  return versions.is_array() &&
         std::find(versions.begin(), versions.end(), protocol::kProtocolVersion) != versions.end();
}

void refuse(Client& client, std::uint64_t id, const base::Error& error) {
  client.send(protocol::encode_error(id, error));
}

}  // namespace

Room::Room(const RoomOptions& options)
    : options_(options),
      run_(options.latest_bytes),
      roster_(options_),
      demand_(roster_, run_, audit_log_),
      notices_(roster_, leaders_, audit_log_, demand_),
      forwarder_(leaders_, audit_log_, options.request_timeout,
                 [this](const Forwarder::Asker& asker, base::Result<json> outcome) {
                   finish(asker, std::move(outcome));
                 }),
      keeper_(options_, roster_, leaders_, audit_log_, metrics_, run_, forwarder_),
      alarms_(options_, roster_, leaders_, audit_log_, run_, keeper_, demand_),
      viewers_(roster_, leaders_, run_, notices_, keeper_, alarms_, audit_log_, demand_),
      parts_(roster_, leaders_, run_, audit_log_, notices_, forwarder_, alarms_),
      workers_(roster_, leaders_, parts_, run_, audit_log_, metrics_, alarms_, demand_),
      records_(options_, roster_, leaders_, run_, audit_log_, metrics_, notices_, alarms_) {}

void Room::restore(json facts, const std::vector<json>& steps) {
  audit_log_.describe_recording(facts);
  run_.set_facts(std::move(facts));
  replace_past(steps);
  alarms_.follow_run();
  run_.lose();
}

void Room::replace_past(const std::vector<json>& steps) {
  run_.forget_past();
  for (const json& step : steps) {
    run_.add_step(step,
                  std::make_shared<const std::string>(protocol::encode_notification("step", step)));
  }
}

void Room::leave(Client& client) {
  const Member* const member = roster_.find(client);
  if (member == nullptr) return;
  spdlog::info("client_left: {} left, {} records dropped", member->session,
               client.queue().dropped());
  if (client.role() == Role::kViewer) metrics_.dropped_for_viewers += client.queue().dropped();
  keeper_.disconnected(member->session);
  const bool was_viewer = client.role() == Role::kViewer && member->greeted;
  const auto led = leaders_.stage_of(client);
  roster_.leave(client);
  if (led) parts_.lose(*led, Clock::now());
  if (was_viewer) demand_.update();
}

void Room::on_text(Client& client, std::string_view text, Clock::time_point now) {
  Member* const member = roster_.find(client);
  const bool worker = client.role() == Role::kWorker;
  if (member == nullptr || (!worker && !admit(client, *member, text, now))) return;
  member->heard = now;
  keeper_.renew(member->session, now);
  protocol::Message message = protocol::parse_message(text, worker ? kWorkerLimits : kViewerLimits);
  if (const auto* request = std::get_if<protocol::Request>(&message))
    on_request(client, *member, *request, now);
  else if (const auto* malformed = std::get_if<protocol::Malformed>(&message))
    refuse(client, malformed->id, malformed->error);
  else if (auto status = on_other(client, *member, std::move(message), text, now); !status)
    refuse(client, 0, status.error());
}

base::Status Room::on_other(Client& client, Member& member, protocol::Message message,
                            std::string_view text, Clock::time_point now) {
  auto* const answer = std::get_if<protocol::Answer>(&message);
  const bool viewer = client.role() == Role::kViewer;
  if (!member.greeted) return protocol::invalid_request("the first message is hello");
  if (viewer && answer != nullptr) return protocol::invalid_request("viewers answer nothing");
  if (viewer)
    return viewers_.on_notification(client, member, std::get<protocol::Notification>(message));
  if (answer == nullptr)
    workers_.on_notification(client, member, std::get<protocol::Notification>(message), text, now);
  else if (&client == leaders_.trainer())
    forwarder_.on_answer(std::move(*answer));
  return {};
}

void Room::on_request(Client& client, Member& member, const protocol::Request& request,
                      Clock::time_point now) {
  if (!member.greeted)
    greet(client, member, request, now);
  else if (client.role() == Role::kViewer)
    viewers_.on_request(client, member, request, now);
  else if (request.method == protocol::Ping::kRow.method)
    client.send(protocol::encode_result(request.id, json::object()));
  else
    refuse(client, request.id, protocol::unknown_method(request.method));
}

void Room::greet(Client& client, Member& member, const protocol::Request& request,
                 Clock::time_point now) {
  base::Status greeted;
  if (request.method != protocol::ViewerHello::kRow.method) {
    greeted = protocol::invalid_request("the first message is hello", "method");
  } else if (!knows_version(request.params)) {
    greeted = base::Error{"unsupported_version", "this hub speaks version 1", "versions"};
  } else {
    greeted = client.role() == Role::kViewer ? viewers_.greet(client, member, request, now)
                                             : workers_.greet(client, member, request, now);
  }
  if (!greeted.ok()) {
    refuse(client, request.id, greeted.error());
    if (greeted.error().code == "unsupported_version")
      client.close_after_sending("unsupported version");
  }
}

void Room::on_binary(Client& client, std::string_view bytes, Clock::time_point now) {
  on_binary(client, std::make_shared<const std::string>(bytes), now);
}

void Room::on_binary(Client& client, const SharedBytes& message, Clock::time_point now) {
  Member* const member = roster_.find(client);
  const bool worker = client.role() == Role::kWorker;
  if (member == nullptr || (!worker && !admit(client, *member, {}, now))) return;
  member->heard = now;
  keeper_.renew(member->session, now);
  if (worker && member->greeted)
    records_.take(client, *member, message, now);
  else
    refuse(client, 0, protocol::invalid_request("binary messages come from workers"));
}

std::optional<std::uint64_t> Room::rank_of(Client& client) {
  const Member* const member = roster_.find(client);
  const bool known = member != nullptr && client.role() == Role::kWorker && member->greeted;
  return known ? std::optional(member->rank) : std::nullopt;
}

void Room::tick(Clock::time_point now) {
  forwarder_.tick(now);
  keeper_.tick(now);
  alarms_.tick(now);
  parts_.tick(now);
  roster_.tick(now);
  notices_.tick(now);
}

void Room::go_without_recording(const base::Error& error) {
  audit_log_.fail();
  raise_alarm(error);
}

// False for a viewer that sends too fast; a request then gets an error as its answer.
// Acknowledgements always pass: after a lost acknowledgement no other would come.
bool Room::admit(Client& client, Member& member, std::string_view text, Clock::time_point now) {
  const MessageGate::Verdict verdict = member.gate.admit(now);
  metrics_.rate_limited += verdict == MessageGate::Verdict::kPass ? 0 : 1;
  if (verdict == MessageGate::Verdict::kClose) {
    client.close_for_violation("too many messages");
  } else if (verdict == MessageGate::Verdict::kRefuse) {
    const protocol::Message message = protocol::parse_message(text, kViewerLimits);
    if (const auto* request = std::get_if<protocol::Request>(&message)) {
      client.send(protocol::encode_error(request->id,
                                         {"rate_limited", "too many messages", "", "send fewer"}));
    }
    const auto* notification = std::get_if<protocol::Notification>(&message);
    return notification != nullptr && notification->event == "ack";
  }
  return verdict == MessageGate::Verdict::kPass;
}

void Room::finish(const Forwarder::Asker& asker, base::Result<json> outcome) {
  if (Client* const viewer = roster_.find_session(asker.session))
    viewer->send(protocol::encode_answer(asker.id, std::move(outcome)));
}

Survey Room::survey(Clock::time_point now) const {
  Survey survey{.controlled = keeper_.lease().held(),
                .programs = run_.programs().size(),
                .waiting_requests = forwarder_.size(),
                .phase = run_.phase(),
                .facts = run_.facts(),
                .recorder = audit_log_.counters(),
                .alarms = alarms_.survey(),
                .projections = alarms_.projections()};
  for (const Leader& leader : leaders_.all()) {
    survey.leaders.push_back({.connected = leader.client != nullptr,
                              .records = leader.records,
                              .missed = leader.missed,
                              .dropped = leader.dropped});
  }
  roster_.count(survey, now);
  return survey;
}

base::Status Room::ready(Clock::time_point now, std::chrono::milliseconds timeout) {
  if (leaders_.trainer() == nullptr)
    return base::Error{"no_trainer", "no worker of rank 0 is connected"};
  const std::string phase = run_.phase();
  const auto since = now - roster_.find(*leaders_.trainer())->moved;
  if (std::ranges::find(kResting, phase) == kResting.end() && since > timeout) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since).count();
    return base::Error{"silent", "the trainer's steps have said nothing for " +
                                     std::to_string(seconds) + " s in phase " + phase};
  }
  if (const auto missing = leaders_.missing(); missing && !run_.has_ended())
    return base::Error{"missing_part", leaders_.name_of(*missing) + " is not connected"};
  return {};
}

}  // namespace tt::hub
