#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "clock.h"

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
  };

  std::uint64_t add(Asker asker, Clock::time_point deadline);
  /// Nothing if the answer came too late or twice.
  std::optional<Asker> take(std::uint64_t id);
  std::vector<Asker> take_expired(Clock::time_point now);
  std::vector<Asker> take_all();
  std::size_t waiting(const std::string& session) const;
  std::size_t size() const { return pending_.size(); }

 private:
  struct Pending {
    Asker asker;
    Clock::time_point deadline;
  };
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, Pending> pending_;
};

}  // namespace tt::hub
