#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/hub/clock.h"

namespace tt::hub {

/// Requests that went on to the trainer under an id of the hub's own and wait for their answers.
/// Thread: the hub's I/O thread only.
class Forwarder {
 public:
  /// Who asked, and under which id; an empty session is the hub itself, which wants no answer.
  /// Method and params are for the audit trail, which keeps what changes something.
  struct Asker {
    std::string session;
    std::uint64_t id = 0;
    std::string who;  // the controller's name
    std::string method;
    nlohmann::json params;
    bool changes = true;
    bool told = false;  // that it timed out: the answer is for the audit trail alone
  };

  std::uint64_t add(Asker asker, Clock::time_point deadline);
  /// Nothing if the answer came twice, or too late where nothing was to be changed.
  std::optional<Asker> take(std::uint64_t id);
  /// Those to tell so. Who asked for a change is kept, kMaxLate of them, until the trainer
  /// answers.
  std::vector<Asker> take_expired(Clock::time_point now);
  /// Also those that were told that they timed out.
  std::vector<Asker> take_all();
  /// Those that were not told so.
  std::size_t waiting(const std::string& session) const;
  std::size_t size() const { return pending_.size() - late_.size(); }

 private:
  static constexpr std::size_t kMaxLate = 256;
  struct Pending {
    Asker asker;
    Clock::time_point deadline;
  };
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, Pending> pending_;
  std::set<std::uint64_t> late_;  // those that were told
};

}  // namespace tt::hub
