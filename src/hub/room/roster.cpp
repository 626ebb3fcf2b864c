#include "src/hub/room/roster.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "tensor_tracer/protocol/message.h"

namespace tt::hub {
namespace {

constexpr auto kLossInterval = std::chrono::seconds(1);
constexpr auto kSizeInterval = std::chrono::seconds(5);

bool is_viewer(const Client& client, const Member& member) {
  return client.role() == Role::kViewer && member.greeted;
}

void send_alarm(Client& client, const std::string& message) {
  const bool is_viewer = client.role() == Role::kViewer;
  const nlohmann::json params = {{"level", "error"}, {"message", message}};
  client.send(is_viewer ? protocol::encode_notification("log", params)
                        : protocol::encode_notification("alarm", {{"message", message}}));
}

}  // namespace

void Roster::join(Client& client, Clock::time_point now, bool may_be_silent) {
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

void Roster::replace(Client& client, Client& successor) {
  auto place = members_.extract(&client);
  place.key() = &successor;
  members_.insert(std::move(place));
}

void Roster::leave(Client& client) {
  members_.erase(&client);
  leader_ = leader_ == &client ? nullptr : leader_;
}

Member* Roster::find(Client& client) {
  const auto found = members_.find(&client);
  return found == members_.end() ? nullptr : &found->second;
}

Client* Roster::find_session(std::string_view session) {
  const auto found =
      std::ranges::find(members_, session, [](const auto& one) { return one.second.session; });
  return found == members_.end() ? nullptr : found->first;
}

void Roster::broadcast(const SharedBytes& text) {
  for (const auto& [client, member] : members_) {
    if (is_viewer(*client, member)) {
      client->send(text);
    }
  }
}

void Roster::broadcast(std::string_view event, nlohmann::json params) {
  broadcast(
      std::make_shared<const std::string>(protocol::encode_notification(event, std::move(params))));
}

void Roster::broadcast_data(const std::string& key, const SharedBytes& text) {
  for (const auto& [client, member] : members_) {
    if (is_viewer(*client, member)) {
      client->queue().push_data(key, text);
      client->wake();
    }
  }
}

void Roster::set_alarm_demand(bool wants_records) {
  if (std::exchange(alarms_want_records_, wants_records) != wants_records) {
    notify_demand();
  }
}

void Roster::notify_demand() {
  const auto count = std::ranges::count_if(members_, [](const auto& one) {
    return is_viewer(*one.first, one.second) && one.second.watches;
  });
  const auto text = std::make_shared<const std::string>(protocol::encode_notification(
      "viewers",
      {{"count", count}, {"wanted", audit_log_.takes_traced() || alarms_want_records_}}));
  for (const auto& [client, member] : members_) {
    if (client->role() == Role::kWorker && member.greeted) {
      client->send(text);
    }
  }
}

void Roster::log(std::string_view level, const std::string& message) {
  const nlohmann::json params = {{"level", level}, {"message", message}};
  audit_log_.event("log", params);
  broadcast("log", params);
}

void Roster::raise_alarm(const base::Error& error) {
  alarms_.push_back(base::to_string(error));
  spdlog::error("alarm: {}", alarms_.back());
  log("error", alarms_.back());
  if (leader_ != nullptr) {
    send_alarm(*leader_, alarms_.back());
  }
  notify_demand();  // the alarm may be the end of the recording
}

void Roster::repeat_alarms(Client& client) const {
  for (const std::string& alarm : alarms_) {
    send_alarm(client, alarm);
  }
}

void Roster::notify_recording_drops(Clock::time_point now) {
  if (now - loss_told_ < kLossInterval) {
    return;
  }
  if (const AuditLog::Lost lost = audit_log_.take_lost(); lost.records + lost.lines > 0) {
    loss_told_ = now;
    nlohmann::json params = {{"records", lost.records}, {"where", "recording"}};
    if (lost.lines > 0) {
      params["events"] = lost.lines;
    }
    audit_log_.event("dropped", params);
    broadcast("dropped", params);
  }
}

void Roster::notify_recording_size(Clock::time_point now) {
  const record::RecorderCounters counters = audit_log_.counters();
  if (counters.file_bytes == told_bytes_ || now - size_told_ < kSizeInterval) {
    return;
  }
  size_told_ = now;
  told_bytes_ = counters.file_bytes;
  broadcast("recording", {{"bytes", counters.file_bytes}, {"max_bytes", counters.max_bytes}});
}

void Roster::tick(Clock::time_point now) {
  for (const auto& [client, member] : members_) {
    client->tick(now);
    if (client->queue().release_held(now)) {
      client->wake();
    }
    const bool must_speak = !member.greeted && !member.may_be_silent;
    if (must_speak && now - member.joined > options_.hello_timeout) {
      client->close("no hello");
    }
  }
  notify_recording_drops(now);
  notify_recording_size(now);
}

void Roster::count(Survey& survey, Clock::time_point now) const {
  for (const auto& [client, member] : members_) {
    const bool viewer = client->role() == Role::kViewer;
    (viewer ? survey.queued_for_viewers : survey.queued_for_workers) += client->queue().bytes();
    if (viewer) {
      survey.dropped_for_viewers += client->queue().dropped();
      survey.viewers += member.greeted ? 1 : 0;
    } else if (member.greeted) {
      const double silent = std::chrono::duration<double>(now - member.heard).count();
      const auto [known, fresh] = survey.workers.emplace(
          member.rank, WorkerSurvey{.silent_seconds = silent, .link = member.link});
      if (!fresh && silent < known->second.silent_seconds) {
        known->second = {.silent_seconds = silent, .link = member.link};
      }
    }
  }
}

}  // namespace tt::hub
