#include "src/hub/room/roster.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "tensor_tracer/protocol/message.h"

namespace tt::hub {
namespace {

bool is_viewer(const Client& client, const Member& member) {
  return client.role() == Role::kViewer && member.greeted;
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

void Roster::leave(Client& client) { members_.erase(&client); }

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
  for (const auto& [client, member] : members_)
    if (is_viewer(*client, member)) client->send(text);
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

void Roster::tick(Clock::time_point now) {
  for (const auto& [client, member] : members_) {
    client->tick(now);
    if (client->queue().release_held(now)) client->wake();
    const bool must_speak = !member.greeted && !member.may_be_silent;
    if (must_speak && now - member.joined > options_.hello_timeout) client->close("no hello");
  }
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
      if (!fresh && silent < known->second.silent_seconds)
        known->second = {.silent_seconds = silent, .link = member.link};
    }
  }
}

}  // namespace tt::hub
