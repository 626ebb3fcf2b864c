#include <spdlog/spdlog.h>

#include <utility>

#include "src/hub/dialect/native_plan.h"
#include "src/hub/dialect/texts.h"
#include "src/hub/room.h"

namespace tt::hub {
namespace {

using nlohmann::json;

base::Error error(const char* code, std::string message, std::string remedy = {}) {
  return {.code = code, .message = std::move(message), .where = {}, .remedy = std::move(remedy)};
}

std::string name_of(dialect::Dialect dialect) {
  return dialect == dialect::Dialect::kMegaScope ? "MegaScope client" : "Tensor Tracer client";
}

}  // namespace

// False: the message is for the native protocol.
bool Room::on_legacy_text(Client& client, Member& member, std::string_view text,
                          Clock::time_point now) {
  if (client.role() != Role::kViewer || (member.greeted && !member.legacy)) {
    return false;
  }
  auto message = protocol::parse_json(text);
  if (message && dialect::is_legacy(message.value())) {
    if (!member.legacy) {
      member.legacy.emplace();
    }
    on_legacy_message(client, member, std::move(message).value(), now);
    return true;
  }
  if (!member.legacy) {
    return false;
  }
  if (!member.legacy->dialect && message && message.value().is_object() &&
      message.value().contains("method")) {
    member.legacy.reset();
    return false;
  }
  send(client, dialect::error_text(message ? error("invalid_request", "a message has a type")
                                           : message.error()));
  return true;
}

// Other types are left unanswered, as both tools leave them.
void Room::on_legacy_message(Client& client, Member& member, json message, Clock::time_point now) {
  const std::string& type = dialect::member(message, "type").get_ref<const std::string&>();
  if (type == "ping") {
    send(client, dialect::pong_text());
  } else if (type == "run_training_step") {
    run_training_step(client, member, std::move(message), now);
  } else if (type == "worker_forward") {
    send(client, dialect::error_text(error("not_allowed", "worker_forward comes from workers",
                                           "the run's ranks send their data themselves")));
  } else if (type == "generate") {
    send(client, dialect::error_text(error("not_allowed", "this run trains and does not generate",
                                           "send run_training_step")));
  }
}

void Room::run_training_step(Client& client, Member& member, json message, Clock::time_point now) {
  LegacyViewer& legacy = *member.legacy;
  if (!legacy.dialect) {
    legacy.dialect = dialect::dialect_of(message);
    client.queue().translate_records([this, dialect = *legacy.dialect](const SharedBytes& record) {
      return update_of(dialect, record);
    });
    spdlog::info("legacy_viewer: {}: a {}", member.session, name_of(*legacy.dialect));
  }
  const bool finished = mirror_.phase() == "finished";
  if (leader_ == nullptr && !finished) {
    legacy.waiting = std::move(message);  // answered when a trainer comes
    return;
  }
  const base::Status watched = finished ? error("no_trainer", "the run has finished")
                                        : watch_for(client, member, message, now);
  if (!watched.ok()) {
    send(client, dialect::error_text(watched.error()));
  }
}

base::Status Room::watch_for(Client& client, Member& member, const json& message,
                             Clock::time_point now) {
  const auto disturbances = dialect::read_disturbances(*member.legacy->dialect, message);
  if (!disturbances) {
    return disturbances.error();
  }
  const auto plan = dialect::make_plan(*member.legacy->dialect, message, mirror_.facts());
  if (!plan) {
    return plan.error();
  }
  // A recording grants no wish: who comes to one watches what there is.
  const bool holds =
      !options_.replay &&
      (lease_.held_by(member.session) ||
       claim(client, member, {{"name", name_of(*member.legacy->dialect)}}, now).ok());
  std::vector<protocol::Request> wishes;
  if (holds) {
    wishes = wishes_for(member, plan.value(), disturbances.value());
    if (auto sent = ask_for_legacy(member, wishes, now); !sent.ok()) {
      return sent;
    }
  }
  // Only now: a run that waits for a viewer starts, and with this plan.
  if (!std::exchange(member.greeted, true)) {
    notify_viewer_count();
  }
  if (wishes.empty()) {
    start_legacy(client, member);
  }
  return {};
}

// What must be asked for so that this plan and these disturbances, and no others, are in force.
std::vector<protocol::Request> Room::wishes_for(
    const Member& member, const json& plan,
    const std::vector<dialect::Disturbance>& disturbances) const {
  // Others may be on their way.
  const bool unsure = forwarder_.waiting(member.session) > 0;
  std::vector<protocol::Request> wishes;
  for (const auto& [name, program] : disturbances) {
    const json* const known = mirror_.find_program(name);
    if (program.empty() && (unsure || known != nullptr)) {
      wishes.push_back({0, "intervention.remove", {{"name", name}}});
    } else if (!program.empty() &&
               (unsure || known == nullptr || dialect::member(*known, "text") != program)) {
      wishes.push_back({0, "intervention.apply", {{"name", name}, {"program", program}}});
    }
  }
  const json& in_force = dialect::member(dialect::member(mirror_.facts(), "plan"), "entries");
  if (unsure || in_force != plan.at("entries")) {
    wishes.push_back({0, "plan.set", {{"plan", plan}}});
  }
  return wishes;
}

base::Status Room::ask_for_legacy(Member& member, std::vector<protocol::Request> wishes,
                                  Clock::time_point now) {
  LegacyViewer& legacy = *member.legacy;
  LegacyViewer::Asked asked;
  ++legacy.last_asked;
  for (protocol::Request& wish : wishes) {
    wish.id = legacy.last_asked;
    if (auto sent = forward(member, std::move(wish), now); !sent.ok()) {
      asked.refused = sent.error();
      break;
    }
    ++asked.unanswered;
  }
  if (asked.unanswered > 0) {
    legacy.asked.emplace(legacy.last_asked, std::move(asked));
  } else if (asked.refused) {
    return *asked.refused;
  }
  return {};
}

void Room::start_legacy(Client& client, Member& member) {
  const std::string phase = mirror_.phase();
  if (lease_.held_by(member.session) && (phase == "paused" || phase == "waiting")) {
    continue_run("run_training_step of " + member.session);
  }
  send(client, dialect::start_text(mirror_.facts()));
  if (!std::exchange(member.legacy->started, true)) {
    client.queue().offer_latest();
    client.wake();
  }
}

void Room::finish_request(const Forwarder::Asker& asker, base::Result<json> outcome) {
  Client* const viewer = find_session(asker.session);
  if (viewer == nullptr) {
    return;
  }
  Member& asked = members_.at(viewer);
  if (!asked.legacy) {
    send(*viewer, outcome.ok() ? protocol::encode_result(asker.id, std::move(outcome).value())
                               : protocol::encode_error(asker.id, outcome.error()));
  } else {
    finish_for_legacy(*viewer, asked, asker, outcome);
  }
}

// The mirror learns from the answer what the trainer's events tell a moment later: the next
// run_training_step may come first.
void Room::finish_for_legacy(Client& viewer, Member& member, const Forwarder::Asker& asker,
                             const base::Result<json>& outcome) {
  const bool removal = asker.method == "intervention.remove";
  if (outcome.ok() && asker.method == "plan.set") {
    mirror_.set_plan(dialect::member(outcome.value(), "plan"));
    shown_records_.set_plan(dialect::member(mirror_.facts(), "plan"));
  } else if (outcome.ok() && asker.method == "intervention.apply") {
    mirror_.put_program(dialect::member(outcome.value(), "program"));
  } else if (outcome.ok() && removal) {
    mirror_.drop_program(asker.params.at("name"));
  }
  const auto found = member.legacy->asked.find(asker.id);
  if (found == member.legacy->asked.end()) {
    return;
  }
  LegacyViewer::Asked& asked = found->second;
  // A program that is not there is as good as removed.
  const bool lost =
      !outcome.ok() && (outcome.error().code == "no_trainer" || outcome.error().code == "timeout");
  if (!asked.refused && !outcome.ok() && (!removal || lost)) {
    asked.refused = outcome.error();
  }
  if (--asked.unanswered > 0) {
    return;
  }
  const std::optional<base::Error> refused = std::move(asked.refused);
  member.legacy->asked.erase(found);
  if (refused) {
    send(viewer, dialect::error_text(*refused));
  } else {
    start_legacy(viewer, member);
  }
}

// Such a viewer sends no heartbeats: its lease lasts as long as its connection, which ends when it
// does not answer the hub's pings.
void Room::tend_legacy_viewers(Clock::time_point now) {
  for (auto& [client, member] : members_) {
    if (!member.legacy) {
      continue;
    }
    lease_.renew(member.session, now);
    if (leader_ != nullptr && !member.legacy->waiting.is_null()) {
      run_training_step(*client, member, std::exchange(member.legacy->waiting, nullptr), now);
    }
  }
}

void Room::take_updates() {
  encoder_.collect();
  for (const auto& [client, member] : members_) {
    if (member.legacy) {
      client->wake();
    }
  }
}

Translation Room::update_of(dialect::Dialect dialect, const SharedBytes& record) {
  if (!shown_records_.shows(dialect, *record)) {
    return {};
  }
  auto text = encoder_.update_of(dialect, record);
  return {.later = !text.has_value(), .text = std::move(text)};
}

bool Room::wants_record(const Member& member, const protocol::RecordHeader& header) const {
  if (!member.legacy) {
    return member.greeted;
  }
  return member.legacy->started && shown_records_.wants(*member.legacy->dialect, header);
}

}  // namespace tt::hub
