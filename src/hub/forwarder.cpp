#include "forwarder.h"

#include <algorithm>
#include <utility>

namespace tt::hub {

std::uint64_t Forwarder::add(Asker asker, Clock::time_point deadline) {
  pending_.emplace(++last_id_, Pending{std::move(asker), deadline});
  return last_id_;
}

std::optional<Forwarder::Asker> Forwarder::take(std::uint64_t id) {
  auto node = pending_.extract(id);
  if (node.empty()) {
    return std::nullopt;
  }
  return std::move(node.mapped().asker);
}

std::vector<Forwarder::Asker> Forwarder::take_expired(Clock::time_point now) {
  std::vector<Asker> askers;
  for (auto pending = pending_.begin(); pending != pending_.end();) {
    if (now >= pending->second.deadline) {
      askers.push_back(std::move(pending->second.asker));
      pending = pending_.erase(pending);
    } else {
      ++pending;
    }
  }
  return askers;
}

std::vector<Forwarder::Asker> Forwarder::take_all() {
  return take_expired(Clock::time_point::max());
}

std::size_t Forwarder::waiting(const std::string& session) const {
  return static_cast<std::size_t>(
      std::count_if(pending_.begin(), pending_.end(),
                    [&](const auto& pending) { return pending.second.asker.session == session; }));
}

}  // namespace tt::hub
