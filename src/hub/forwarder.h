#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/hub/audit_log.h"
#include "src/hub/roster.h"
#include "tensor_tracer/protocol/message.h"
#include "tensor_tracer/protocol/request.h"

namespace tt::hub {

/// Requests that went on to the trainer under an id of the hub, and wait for their answers. What
/// changes something is written into the audit trail.
/// Thread: the hub's I/O thread only.
class Forwarder {
 public:
  /// The session that asked, and the id of its request; an empty session is the hub itself.
  struct Asker {
    std::string session = {};
    std::uint64_t id = 0;
    std::string who = {};  // the controller's name
    protocol::TrainerRequest request;
    bool told = false;  // that it timed out: the answer is for the audit trail alone
  };
  using Finish = std::function<void(const Asker&, base::Result<nlohmann::json>)>;

  /// Both outlive this. `finish` brings each asker its outcome, once.
  Forwarder(Roster& roster, AuditLog& audit_log, std::chrono::milliseconds timeout, Finish finish)
      : roster_(roster), audit_log_(audit_log), timeout_(timeout), finish_(std::move(finish)) {}

  /// REQUIRES: the roster has a leader.
  void send(Asker asker, Clock::time_point now);
  /// Of the leader. An answer that came before is ignored.
  void on_answer(protocol::Answer answer);
  /// The leader's connection ended: nothing is answered any more.
  void end_all();
  /// Ends what has timed out. Changes are kept, kMaxLate of them, until the trainer answers.
  void tick(Clock::time_point now);
  /// Those that have no outcome yet.
  std::size_t waiting(std::string_view session) const;
  std::size_t size() const { return pending_.size() - late_.size(); }

 private:
  static constexpr std::size_t kMaxLate = 256;
  struct Pending {
    Asker asker;
    Clock::time_point deadline;
  };

  std::vector<Asker> take_expired(Clock::time_point now);
  void write_trail(const Asker& asker, const base::Result<nlohmann::json>& outcome);

  Roster& roster_;
  AuditLog& audit_log_;
  const std::chrono::milliseconds timeout_;
  const Finish finish_;
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, Pending> pending_;
  std::set<std::uint64_t> late_;  // those that were told
};

}  // namespace tt::hub
