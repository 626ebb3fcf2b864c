#include <algorithm>
#include <array>
#include <string_view>

#include "src/hub/room.h"

namespace tt::hub {

Survey Room::survey(Clock::time_point now) {
  Survey survey{.controlled = lease_.held(),
                .programs = mirror_.programs().size(),
                .waiting_requests = forwarder_.size(),
                .phase = mirror_.phase(),
                .facts = mirror_.facts(),
                .recorder = journal_.counters()};
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
  return survey;
}

base::Status Room::ready(Clock::time_point now, std::chrono::milliseconds timeout) const {
  const auto leader = leader_ == nullptr ? members_.end() : members_.find(leader_);
  if (leader == members_.end()) {
    return base::Error{.code = "no_trainer",
                       .message = "no worker of rank 0 is connected",
                       .where = {},
                       .remedy = {}};
  }
  const std::string phase = mirror_.phase();
  constexpr std::array<std::string_view, 4> kRests = {"paused", "waiting", "finished", "replay"};
  const bool rests = std::ranges::find(kRests, phase) != kRests.end();
  const auto since = now - leader->second.moved;
  if (!rests && since > timeout) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since).count();
    return base::Error{.code = "silent",
                       .message = "the trainer's steps have said nothing for " +
                                  std::to_string(seconds) + " s in phase " + phase,
                       .where = {},
                       .remedy = {}};
  }
  return {};
}

}  // namespace tt::hub
