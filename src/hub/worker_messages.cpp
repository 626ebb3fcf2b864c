#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <utility>

#include "src/hub/room.h"
#include "src/hub/run_facts.h"
#include "tensor_tracer/hub/event_log.h"

namespace tt::hub {
namespace {

constexpr std::array<std::string_view, 7> kPassedOn = {
    "step", "plan", "interventions", "applied", "saved", "dropped", "log"};

// What is said once for all ranks.
constexpr std::array<std::string_view, 4> kOfTheLeader = {"state", "step", "plan", "interventions"};

// Of two events with one key a slow viewer gets the later one.
std::string data_key(const protocol::Notification& notification) {
  nlohmann::json key = nlohmann::json::array({notification.event});
  if (notification.event == "saved") {
    for (const char* member : {"program", "name", "layer", "phase", "prompt_set"}) {
      key.push_back(notification.params.value(member, nlohmann::json()));
    }
  }
  return protocol::encode_json(std::move(key));
}

}  // namespace

void Room::greet_worker(Client& client, Member& member, const protocol::Request& request) {
  const json rank = request.params.value("rank", json(0U));
  json facts = request.params.value("run", json());
  if (!rank.is_number_unsigned() || !facts.is_object()) {
    send(client, protocol::encode_error(request.id,
                                        {"invalid_argument", "a worker says its rank and its run",
                                         rank.is_number_unsigned() ? "run" : "rank", ""}));
    return;
  }
  if (base::Status known = check_facts(facts); !known.ok()) {
    send(client, protocol::encode_error(request.id, known.error()));
    return;
  }
  member.greeted = true;
  member.rank = rank.get<std::uint64_t>();
  const LogRank about(member.rank);
  spdlog::info("worker_joined: {}", member.session);
  json result = {
      {"version", protocol::kProtocolVersion}, {"session", member.session}, {"hub", TT_VERSION}};
  if (const auto offer = request.params.find("shared_memory"); offer != request.params.end()) {
    result["shared_memory"] = accept_memory(member, *offer);
  }
  send(client, protocol::encode_result(request.id, std::move(result)));
  if (member.rank == 0) {
    replace_leader(client, member);
    if (!recording_.empty()) facts["recording"] = recording_;
    mirror_.set_facts(facts);
    journal_.facts(facts);
    shown_records_.set_plan(dialect::member(mirror_.facts(), "plan"));
    broadcast("run", facts);
    for (const std::string& alarm : alarms_) {
      send(client, alarm_text(alarm));
    }
  }
  notify_viewer_count();
}

bool Room::accept_memory(Member& member, const json& offer) {
  auto opened = protocol::SharedReader::open(offer);
  if (!opened) {
    spdlog::info("no_shared_memory: {}: {}", member.session, base::to_string(opened.error()));
    return false;
  }
  member.shared = std::move(opened).value();
  return true;
}

// A trainer that came back is the same trainer: its old connection is only not known to be dead.
void Room::replace_leader(Client& client, Member& member) {
  Client* const old = std::exchange(leader_, &client);
  spdlog::info("trainer_joined: {} is the trainer", member.session);
  if (old != nullptr) {
    lose_leader();
    old->close("another worker of rank 0 connected");
  }
}

void Room::lose_leader() {
  for (const auto& asker : forwarder_.take_all()) {
    if (asker.changes) {
      journal_.event("unanswered", {{"method", asker.method}, {"params", asker.params}},
                     asker.session, asker.who);
    }
    if (!asker.told) {
      finish_request(asker, base::Error{"no_trainer", "the trainer's connection ended", "", ""});
    }
  }
  if (mirror_.lose()) {
    journal_.state(mirror_.state());
    broadcast("state", mirror_.state());
  }
}

void Room::on_answer(protocol::Answer answer) {
  const auto asker = forwarder_.take(answer.id);
  if (!asker) {
    return;
  }
  if (asker->changes) {
    keep_in_trail(*asker, answer);
  }
  if (asker->told) {
    return;
  }
  if (auto* result = std::get_if<json>(&answer.outcome)) {
    finish_request(*asker, std::move(*result));
  } else {
    finish_request(*asker, std::get<base::Error>(std::move(answer.outcome)));
  }
}

void Room::keep_in_trail(const Forwarder::Asker& asker, const protocol::Answer& answer) {
  if (const auto* result = std::get_if<json>(&answer.outcome)) {
    json detail = {{"params", asker.params}, {"result", *result}};
    if (result->is_object()) detail["result"].erase("records");  // may be megabytes, of a preview
    if (result->is_object() && result->contains("step")) {
      detail["step"] = result->at("step");
    }
    journal_.event(asker.method, std::move(detail), asker.session, asker.who);
  } else {
    const auto& error = std::get<base::Error>(answer.outcome);
    journal_.event("refused",
                   {{"method", asker.method}, {"code", error.code}, {"message", error.message}},
                   asker.session, asker.who);
  }
}

void Room::on_notification(Client& client, Member& member,
                           const protocol::Notification& notification, std::string_view text) {
  const std::string& event = notification.event;
  const bool from_leader = &client == leader_;
  if (!from_leader && std::ranges::find(kOfTheLeader, event) != kOfTheLeader.end()) {
    return;
  }
  if (event == "state") {
    if (mirror_.set_state(notification.params)) {
      journal_.state(notification.params);
      broadcast(std::make_shared<const std::string>(text));
    }
    return;
  }
  if (event == "link") {
    member.link = parse_link(notification.params);
    return;
  }
  if (std::ranges::find(kPassedOn, event) == kPassedOn.end()) {
    spdlog::debug("unknown_event: {}: {}", member.session, event.substr(0, 64));
    return;
  }
  const auto shared = std::make_shared<const std::string>(text);
  if (event == "dropped") {
    metrics_.on_dropped(notification.params);
  }
  if (from_leader) {
    follow_leader(notification, shared);
  }
  if (event == "applied" || event == "saved") {
    pass_on_data(notification, shared);
    return;
  }
  if (event != "step") {
    journal_.event(event, notification.params);
  }
  broadcast(shared);
}

void Room::follow_leader(const protocol::Notification& notification, const SharedBytes& text) {
  const json& params = notification.params;
  if (notification.event == "step") {
    metrics_.on_step(params);
    mirror_.add_step(params, text);
    journal_.step(params);
  } else if (notification.event == "plan") {
    mirror_.set_plan(params.value("plan", json()));
    shown_records_.set_plan(dialect::member(mirror_.facts(), "plan"));
  } else if (notification.event == "interventions") {
    mirror_.set_programs(params.value("programs", json()));
  } else if (notification.event == "applied") {
    metrics_.on_applied(params);
  }
}

// They come as often as records do, and a viewer or a disk that is slow loses them as it does
// records.
void Room::pass_on_data(const protocol::Notification& notification, const SharedBytes& text) {
  journal_.data(notification.event, notification.params, text->size());
  const std::string key = data_key(notification);
  for (const auto& [client, member] : members_) {
    if (client->role() == Role::kViewer && member.greeted && !member.legacy) {
      client->queue().push_data(key, text);
      client->wake();
    }
  }
}

}  // namespace tt::hub
