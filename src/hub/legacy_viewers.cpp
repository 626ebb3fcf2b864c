#include <spdlog/spdlog.h>

#include <utility>

#include "dialect/native_plan.h"
#include "dialect/texts.h"
#include "room.h"

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
    client.queue().translate_records([this, dialect = *legacy.dialect](std::string_view record) {
      return shown_records_.update_of(dialect, record);
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
  if (auto none = dialect::check_disturbances(message); !none.ok()) {
    return none;
  }
  const auto plan = dialect::make_plan(*member.legacy->dialect, message, mirror_.facts());
  if (!plan) {
    return plan.error();
  }
  const bool holds = lease_.held_by(member.session) ||
                     claim(client, member, {{"name", name_of(*member.legacy->dialect)}}, now).ok();
  const json& in_force = dialect::member(dialect::member(mirror_.facts(), "plan"), "entries");
  // Another plan may be on its way.
  const bool differs =
      forwarder_.waiting(member.session) > 0 || in_force != plan.value().at("entries");
  if (holds && differs) {
    if (auto sent = forward(member, {0, "plan.set", {{"plan", plan.value()}}}, now); !sent.ok()) {
      return sent;
    }
  }
  // Only now: a run that waits for a viewer starts, and with this plan.
  if (!std::exchange(member.greeted, true)) {
    tell_viewer_count();
  }
  if (!holds || !differs) {
    start_legacy(client, member);
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
  } else if (outcome.ok()) {
    mirror_.set_plan(dialect::member(outcome.value(), "plan"));
    show_plan_to_legacy();
    start_legacy(*viewer, asked);
  } else {
    send(*viewer, dialect::error_text(outcome.error()));
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

void Room::show_plan_to_legacy() {
  shown_records_.set_plan(dialect::member(mirror_.facts(), "plan"));
}

bool Room::wants_record(const Member& member, const protocol::RecordHeader& header) const {
  if (!member.legacy) {
    return member.greeted;
  }
  return member.legacy->started && shown_records_.wants(*member.legacy->dialect, header);
}

}  // namespace tt::hub
