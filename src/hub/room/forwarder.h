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

#include "src/hub/room/audit_log.h"
#include "src/hub/room/leaders.h"
#include "tensor_tracer/protocol/message.h"
#include "tensor_tracer/protocol/request.h"

namespace tt::hub {

/// Requests that were sent to the trainer under an id of the hub and wait for their answers. A
/// request that changes something is written into the audit trail.
/// Thread: the hub's I/O thread only.
class Forwarder {
 public:
  /// The session that sent the request, and the request's id. An empty session is the hub itself.
  struct Asker {
    std::string session = {};
    std::uint64_t id = 0;
    std::string who = {};  // the controller's name
    protocol::TrainerRequest request;
    bool told = false;  // a time-out was reported; the answer is for the audit trail only
  };
  using Finish = std::function<void(const Asker&, base::Result<nlohmann::json>)>;

  /// Both outlive this object. `finish` gives each asker its outcome, once.
  Forwarder(const Leaders& leaders, AuditLog& audit_log, std::chrono::milliseconds timeout,
            Finish finish)
      : leaders_(leaders), audit_log_(audit_log), timeout_(timeout), finish_(std::move(finish)) {}

  /// REQUIRES: a trainer is connected.
  void send(Asker asker, Clock::time_point now);
  /// Takes an answer of the trainer. A second answer to the same request is ignored.
  void on_answer(protocol::Answer answer);
  /// The trainer's connection has ended: ends all waiting requests with an error.
  void end_all();
  /// Ends requests that have timed out. Up to kMaxLate changes are kept until the trainer answers.
  void tick(Clock::time_point now);
  /// The number of this session's requests without an outcome.
  std::size_t waiting(std::string_view session) const;
  std::size_t size() const { return pending_.size() - late_.size(); }

 private:
  static constexpr std::size_t kMaxLate = 256;
  struct Pending {
    Asker asker;
    Clock::time_point deadline;
  };

  std::vector<Asker> take_expired(Clock::time_point now);
  void notify_trainer_who_asks(const Asker& asker);
  void write_trail(const Asker& asker, const base::Result<nlohmann::json>& outcome);

  const Leaders& leaders_;
  AuditLog& audit_log_;
  const std::chrono::milliseconds timeout_;
  const Finish finish_;
  std::uint64_t last_id_ = 0;
  nlohmann::json told_holder_ = nullptr;  // who asked last, as the leader was told; null: the hub
  std::map<std::uint64_t, Pending> pending_;
  std::set<std::uint64_t> late_;  // requests whose time-out was reported
};

}  // namespace tt::hub
