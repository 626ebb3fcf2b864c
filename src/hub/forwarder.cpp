#include "src/hub/forwarder.h"

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
  late_.erase(id);
  return std::move(node.mapped().asker);
}

std::vector<Forwarder::Asker> Forwarder::take_expired(Clock::time_point now) {
  std::vector<Asker> askers;
  for (auto next = pending_.begin(); next != pending_.end();) {
    const auto pending = next++;
    Asker& asker = pending->second.asker;
    if (asker.told || now < pending->second.deadline) {
      continue;
    }
    askers.push_back(asker);
    if (asker.changes) {
      asker.told = true;
      late_.insert(pending->first);
    } else {
      pending_.erase(pending);
    }
  }
  while (late_.size() > kMaxLate) {
    pending_.erase(*late_.begin());
    late_.erase(late_.begin());
  }
  return askers;
}

std::vector<Forwarder::Asker> Forwarder::take_all() {
  std::vector<Asker> askers;
  for (auto& [id, pending] : std::exchange(pending_, {})) {
    askers.push_back(std::move(pending.asker));
  }
  late_.clear();
  return askers;
}

std::size_t Forwarder::waiting(const std::string& session) const {
  return static_cast<std::size_t>(
      std::count_if(pending_.begin(), pending_.end(), [&](const auto& pending) {
        return pending.second.asker.session == session && !pending.second.asker.told;
      }));
}

}  // namespace tt::hub
