#include "src/hub/room.h"

#include <spdlog/spdlog.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/hub/dialect/texts.h"

namespace tt::hub {

std::string alarm_text(const std::string& message) {
  return protocol::encode_notification("alarm", {{"message", message}});
}

namespace {
constexpr protocol::TextLimits kViewerLimits{};
constexpr auto kBetweenLosses = std::chrono::seconds(1);
// A `saved` event has up to 65,536 numbers, the run's facts every program in force.
constexpr protocol::TextLimits kWorkerLimits{.bytes = std::size_t{4} << 20U, .depth = 32};
// A worker tells of these, answers checks and pings while its step may hang.
const std::set<std::string> kOfOtherThreads = {"log", "dropped", "link"};
}  // namespace

Room::Room(const RoomOptions& options)
    : options_(options),
      mirror_(options.latest_bytes),
      lease_(options.lease),
      encoder_(options.on_update_made),
      holder_seen_(Clock::now()) {}

void Room::restore(json facts, const std::vector<json>& steps) {
  mirror_.set_facts(std::move(facts));
  replace_past(steps);
  mirror_.lose();
}

void Room::replace_past(const std::vector<json>& steps) {
  mirror_.forget_past();
  for (const json& step : steps) {
    mirror_.add_step(
        step, std::make_shared<const std::string>(protocol::encode_notification("step", step)));
  }
}

void Room::join(Client& client, Clock::time_point now, bool may_be_silent) {
  const bool viewer = client.role() == Role::kViewer;
  std::string session(viewer ? "v" : "w");
  session += std::to_string(viewer ? ++last_viewer_ : ++last_worker_);
  members_.emplace(&client, Member{.session = session,
                                   .gate = MessageGate(options_.messages),
                                   .joined = now,
                                   .may_be_silent = may_be_silent,
                                   .heard = now,
                                   .moved = now});
  spdlog::info("client_joined: {}", session);
}

void Room::leave(Client& client) {
  const auto member = members_.find(&client);
  if (member == members_.end()) {
    return;
  }
  spdlog::info("client_left: {} left, {} records dropped", member->second.session,
               client.queue().dropped());
  if (client.role() == Role::kViewer) {
    metrics_.dropped_for_viewers += client.queue().dropped();
  }
  lease_.disconnected(member->second.session);
  const bool was_viewer = client.role() == Role::kViewer && member->second.greeted;
  members_.erase(member);
  if (leader_ == &client) {
    leader_ = nullptr;
    lose_leader();
  }
  if (was_viewer) {
    notify_viewer_count();
  }
}

void Room::on_text(Client& client, std::string_view text, Clock::time_point now) {
  const auto found = members_.find(&client);
  if (found == members_.end()) {
    return;
  }
  Member& member = found->second;
  const bool worker = client.role() == Role::kWorker;
  if (!worker && !admit(client, member, text, now)) {
    return;
  }
  member.heard = now;
  lease_.renew(member.session, now);
  if (on_legacy_text(client, member, text, now)) {
    return;
  }
  protocol::Message message = protocol::parse_message(text, worker ? kWorkerLimits : kViewerLimits);
  if (auto* request = std::get_if<protocol::Request>(&message)) {
    on_request(client, member, std::move(*request), now);
  } else if (auto* malformed = std::get_if<protocol::Malformed>(&message)) {
    on_malformed(client, *malformed);
  } else if (!member.greeted) {
    on_malformed(client, {0, {"invalid_request", "the first message is hello", "", ""}});
  } else if (!worker) {
    const auto* notification = std::get_if<protocol::Notification>(&message);
    if (notification != nullptr) {
      on_viewer_notification(client, member, *notification);
    } else {
      on_malformed(client, {0, {"invalid_request", "viewers answer nothing", "", ""}});
    }
  } else if (auto* answer = std::get_if<protocol::Answer>(&message)) {
    if (&client == leader_) {
      on_answer(std::move(*answer));
    }
  } else {
    const auto& notification = std::get<protocol::Notification>(message);
    member.moved = kOfOtherThreads.contains(notification.event) ? member.moved : now;
    on_notification(client, member, notification, text);
  }
}

void Room::on_binary(Client& client, std::string_view bytes, Clock::time_point now) {
  on_binary(client, std::make_shared<const std::string>(bytes), now);
}

void Room::on_binary(Client& client, const SharedBytes& message, Clock::time_point now) {
  const auto member = members_.find(&client);
  if (member == members_.end()) {
    return;
  }
  if (client.role() == Role::kViewer && !admit(client, member->second, {}, now)) {
    return;
  }
  member->second.heard = now;
  lease_.renew(member->second.session, now);
  if (client.role() != Role::kWorker || !member->second.greeted) {
    on_malformed(client, {0, {"invalid_request", "binary messages come from workers", "", ""}});
    return;
  }
  member->second.moved = now;
  if (member->second.shared && protocol::SharedReader::is_places(*message)) {
    take_places(client, member->second, *message, now);
  } else {
    take_records(member->second, message, now);
    end_message(now);
  }
}

std::optional<std::uint64_t> Room::rank_of(Client& client) const {
  const auto member = members_.find(&client);
  const bool known = member != members_.end() && client.role() == Role::kWorker;
  return known && member->second.greeted ? std::optional(member->second.rank) : std::nullopt;
}

void Room::tick(Clock::time_point now) {
  for (const auto& asker : forwarder_.take_expired(now)) {
    finish_request(asker, base::Error{"timeout", "the trainer did not answer in time", "", ""});
  }
  tend_legacy_viewers(now);
  for (const auto& [client, member] : members_) {
    client->tick(now);
    if (client->queue().release_held(now)) {
      client->wake();
    }
    const bool must_speak = !member.greeted && !member.legacy && !member.may_be_silent;
    if (must_speak && now - member.joined > options_.hello_timeout) {
      client->close("no hello");
    }
  }
  if (lease_.expire(now)) {
    end_lease("lease expired");
  }
  end_what_outlived_its_lease(now);
  notify_recording_drops(now);
}

void Room::notify_recording_drops(Clock::time_point now) {
  if (now - lost_told_ < kBetweenLosses) {
    return;
  }
  if (const AuditLog::Lost lost = journal_.take_lost(); lost.records + lost.lines > 0) {
    lost_told_ = now;
    json params = {{"records", lost.records}, {"where", "recording"}};
    if (lost.lines > 0) {
      params["events"] = lost.lines;
    }
    journal_.event("dropped", params);
    broadcast("dropped", params);
  }
}

// As after a restart of this hub.
void Room::end_what_outlived_its_lease(Clock::time_point now) {
  if (lease_.held()) {
    holder_seen_ = now;
    return;
  }
  const bool paused = mirror_.phase() == "paused";
  const bool changed = mirror_.has_programs_to_revert();
  if (leader_ == nullptr || !(paused || changed) || now - holder_seen_ <= options_.lease) {
    return;
  }
  holder_seen_ = now;
  if (changed) {
    revert_programs("nobody holds the lease");
  }
  if (paused) {
    continue_run("nobody holds the lease");
  }
}

void Room::raise_alarm(const base::Error& error) {
  alarms_.push_back(base::to_string(error));
  spdlog::error("alarm: {}", alarms_.back());
  warn("error", alarms_.back());
  if (leader_ != nullptr) {
    send(*leader_, alarm_text(alarms_.back()));
  }
}

void Room::go_without_recording(const base::Error& error) {
  journal_.fail();
  raise_alarm(error);
}

void Room::warn(std::string_view level, const std::string& message) {
  const json params = {{"level", level}, {"message", message}};
  journal_.event("log", params);
  broadcast("log", params);
}

// False for a viewer that sends too fast: a request is told so. Acknowledgements pass: one that was
// left out would be the last.
bool Room::admit(Client& client, Member& member, std::string_view text, Clock::time_point now) {
  const MessageGate::Verdict verdict = member.gate.admit(now);
  metrics_.rate_limited += verdict == MessageGate::Verdict::kPass ? 0 : 1;
  if (verdict == MessageGate::Verdict::kClose) {
    client.close_for_violation("too many messages");
  } else if (verdict == MessageGate::Verdict::kRefuse) {
    const protocol::Message message = protocol::parse_message(text, kViewerLimits);
    if (const auto* request = std::get_if<protocol::Request>(&message)) {
      send(client, protocol::encode_error(request->id,
                                          {"rate_limited", "too many messages", "", "send fewer"}));
    }
    const auto* notification = std::get_if<protocol::Notification>(&message);
    return notification != nullptr && notification->event == "ack";
  }
  return verdict == MessageGate::Verdict::kPass;
}

void Room::on_malformed(Client& client, const protocol::Malformed& malformed) {
  if (members_.at(&client).legacy) {
    send(client, dialect::error_text(malformed.error));
    return;
  }
  send(client, protocol::encode_error(malformed.id, malformed.error));
}

void Room::send(Client& client, std::string text) {
  send(client, std::make_shared<const std::string>(std::move(text)));
}

void Room::send(Client& client, const SharedBytes& text) {
  if (client.queue().push_text(text)) {
    client.wake();
  } else {
    client.close("too slow");
  }
}

void Room::broadcast(const SharedBytes& text) {
  for (const auto& [client, member] : members_) {
    if (client->role() == Role::kViewer && member.greeted && !member.legacy) {
      send(*client, text);
    }
  }
}

void Room::broadcast(std::string_view event, json params) {
  broadcast(
      std::make_shared<const std::string>(protocol::encode_notification(event, std::move(params))));
}

Client* Room::find_session(const std::string& session) {
  for (const auto& [client, member] : members_) {
    if (member.session == session) {
      return client;
    }
  }
  return nullptr;
}

void Room::notify_viewer_count() {
  std::uint64_t count = 0;
  for (const auto& [client, member] : members_) {
    count += client->role() == Role::kViewer && member.greeted ? 1 : 0;
  }
  const auto text = std::make_shared<const std::string>(
      protocol::encode_notification("viewers", {{"count", count}}));
  for (const auto& [client, member] : members_) {
    if (client->role() == Role::kWorker && member.greeted) {
      send(*client, text);
    }
  }
}

void Room::end_lease(std::string_view why) {
  spdlog::info("control_free: {}", why);
  journal_.event("control.free", {{"why", why}});
  broadcast("control", lease_.describe());
  if (revert_wanted_ || mirror_.has_programs_to_revert()) {
    revert_programs(why);
  }
  if (pause_wanted_ || mirror_.phase() == "paused") {
    continue_run(why);
  }
}

void Room::continue_run(std::string_view why) {
  pause_wanted_ = false;
  if (leader_ == nullptr || options_.replay) {
    return;
  }
  spdlog::info("pause_ends: {}", why);
  ask_trainer("control.continue");
}

void Room::revert_programs(std::string_view why) {
  revert_wanted_ = false;
  if (leader_ == nullptr || options_.replay) {
    return;
  }
  spdlog::info("programs_end: {}", why);
  ask_trainer("intervention.revert");
}

void Room::ask_trainer(const std::string& method) {
  const std::uint64_t id =
      forwarder_.add({.session = {}, .id = 0, .who = {}, .method = method, .params = {}},
                     Clock::now() + options_.request_timeout);
  send(*leader_, protocol::encode_request(id, method, json::object()));
}

}  // namespace tt::hub
