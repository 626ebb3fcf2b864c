#include <spdlog/spdlog.h>

#include <utility>

#include "room.h"

namespace tt::hub {

void Room::greet_worker(Client& client, Member& member, const protocol::Request& request) {
  const json rank = request.params.value("rank", json(0U));
  const json facts = request.params.value("run", json());
  if (!rank.is_number_unsigned() || !facts.is_object()) {
    send(client, protocol::encode_error(request.id,
                                        {"invalid_argument", "a worker says its rank and its run",
                                         rank.is_number_unsigned() ? "run" : "rank", ""}));
    return;
  }
  member.greeted = true;
  member.rank = rank.get<std::uint64_t>();
  send(client, protocol::encode_result(request.id, {{"version", protocol::kProtocolVersion},
                                                    {"session", member.session},
                                                    {"hub", TT_VERSION}}));
  if (member.rank == 0) {
    replace_leader(client, member);
    mirror_.set_facts(facts);
    journal_.facts(facts);
    show_plan_to_legacy();
    broadcast("run", facts);
  }
  tell_viewer_count();
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
    finish_request(asker, base::Error{"no_trainer", "the trainer's connection ended", "", ""});
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
  if (auto* result = std::get_if<json>(&answer.outcome)) {
    finish_request(*asker, std::move(*result));
  } else {
    finish_request(*asker, std::get<base::Error>(std::move(answer.outcome)));
  }
}

void Room::keep_in_trail(const Forwarder::Asker& asker, const protocol::Answer& answer) {
  if (const auto* result = std::get_if<json>(&answer.outcome)) {
    json detail = {{"params", asker.params}, {"result", *result}};
    if (result->is_object() && result->contains("step")) {
      detail["step"] = result->at("step");
    }
    journal_.event(asker.method, std::move(detail), asker.session, asker.who);
  } else {
    const auto& error = std::get<base::Error>(answer.outcome);
    journal_.event("refused", {{"method", asker.method}, {"message", error.message}}, asker.session,
                   asker.who);
  }
}

void Room::on_notification(Client& client, const Member& member,
                           const protocol::Notification& notification, std::string_view text) {
  const std::string& event = notification.event;
  const bool from_leader = &client == leader_;
  if (event == "state") {
    if (from_leader && mirror_.set_state(notification.params)) {
      journal_.state(notification.params);
      broadcast(std::make_shared<const std::string>(text));
    }
    return;
  }
  if (event != "step" && event != "plan" && event != "dropped" && event != "log") {
    spdlog::debug("unknown_event: {}: {}", member.session, event.substr(0, 64));
    return;
  }
  const auto shared = std::make_shared<const std::string>(text);
  if (event == "dropped") {
    metrics_.on_dropped(notification.params);
  }
  if (event == "step" && from_leader) {
    metrics_.on_step(notification.params);
    mirror_.add_step(shared);
    journal_.step(notification.params);
  } else {
    journal_.event(event, notification.params);
  }
  if (event == "plan" && from_leader) {
    mirror_.set_plan(notification.params.value("plan", json()));
    show_plan_to_legacy();
  }
  broadcast(shared);
}

}  // namespace tt::hub
