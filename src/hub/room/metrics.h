#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/hub/alarms/projection_book.h"
#include "src/hub/room/client.h"
#include "tensor_tracer/protocol/record.h"
#include "tensor_tracer/record/recorder.h"

/// The numbers of `GET /metrics`: docs/operations.md. Thread: the hub's I/O thread only.
namespace tt::hub {

/// Counts of values, for a fixed set of upper bounds, as in Prometheus.
class Histogram {
 public:
  static constexpr std::array<double, 12> kBounds = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                                     1,    2.5,   5,    10,  30,   60};
  void observe(double value);
  /// The number of values that are at most kBounds[i].
  std::uint64_t below(std::size_t i) const { return below_[i]; }
  std::uint64_t count() const { return count_; }
  double sum() const { return sum_; }

 private:
  std::array<std::uint64_t, kBounds.size()> below_{};
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

/// The messages and bytes of one role.
struct Traffic {
  std::uint64_t messages_in = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t messages_out = 0;
  std::uint64_t bytes_out = 0;
};

/// Counts since the hub started, and the run's latest step. Sessions and the room update them
/// directly.
struct Metrics {
  void on_step(const nlohmann::json& params);
  /// Takes a worker's `dropped` event.
  void on_dropped(const nlohmann::json& params);
  /// Takes the leader's `applied` event.
  void on_applied(const nlohmann::json& params);
  /// Takes a worker's record. A record of `stats` holds the count of numbers that are not finite.
  void on_record(const protocol::RecordView& record);
  void count_http(unsigned status) { ++http[status / 100 % http.size()]; }
  Traffic& of(Role role) { return role == Role::kViewer ? viewer : worker; }

  /// The numbers of the latest `step` event, by their names in the event.
  std::map<std::string, double, std::less<>> step;
  Histogram step_seconds;
  double tracer_seconds = 0;
  std::optional<double> gather_seconds = {};  // none: no step has reported it
  std::optional<double> encode_seconds = {};
  std::uint64_t nonfinite_losses = 0;  // steps
  std::uint64_t nonfinite_gradient_norms = 0;
  std::array<double, 3> nonfinite_numbers{};  // NaN, +Inf, -Inf

  Traffic viewer;
  Traffic worker;
  std::array<std::uint64_t, 6> http{};  // answers by the first digit of their status
  std::uint64_t applications = 0;       // forwards in which a program acted
  std::uint64_t positions = 0;          // positions that programs wrote
  std::uint64_t records = 0;
  std::uint64_t damaged_records = 0;
  std::uint64_t dropped_for_viewers = 0;  // for viewers that have left
  std::uint64_t dropped_by_trainer = 0;
  std::uint64_t connections = 0;
  std::uint64_t auth_failures = 0;
  std::uint64_t rate_limited = 0;
  std::uint64_t leases = 0;
  std::uint64_t errors = 0;  // exceptions that did not end the hub
};

/// A worker's `link` event: the worker's side of the connection.
struct LinkFacts {
  double send_seconds = 0;
  double queue_bytes = 0;
};
LinkFacts parse_link(const nlohmann::json& params);

/// One connected worker.
struct WorkerSurvey {
  double silent_seconds = 0;
  std::optional<LinkFacts> link = std::nullopt;  // none: not reported yet
};

/// The run's alarms.
struct AlarmSurvey {
  std::map<std::string, bool> firing = {};  // by name; their number is limited
  std::uint64_t fired = 0;
  std::uint64_t failed_calls = 0;  // of webhook and command
};

/// The leader of one stage. The counts are those since the hub started.
struct LeaderSurvey {
  bool connected = false;
  std::uint64_t records = 0;
  std::uint64_t missed = 0;   // of the gaps between sequence numbers
  std::uint64_t dropped = 0;  // reported by the leader
};

/// The state at one moment.
struct Survey {
  std::size_t viewers = 0;
  std::map<std::uint64_t, WorkerSurvey> workers = {};  // by global rank
  std::vector<LeaderSurvey> leaders = {};              // by stage
  bool controlled = false;
  std::size_t programs = 0;            // in force
  std::size_t queued_for_viewers = 0;  // bytes
  std::size_t queued_for_workers = 0;
  std::uint64_t dropped_for_viewers = 0;  // for viewers that are connected
  std::size_t waiting_requests = 0;
  std::string phase = {};
  nlohmann::json facts = {};
  record::RecorderCounters recorder = {};
  AlarmSurvey alarms = {};
  std::vector<ProjectionMean> projections = {};  // the newest
};

/// Facts of this process, from /proc.
struct ProcessFacts {
  double cpu_seconds = 0;
  double resident_bytes = 0;
  double open_fds = 0;
  double uptime_seconds = 0;
};
ProcessFacts read_process_facts();

/// Prometheus' text format 0.0.4. The number of series does not depend on the clients' messages;
/// only each connected worker, each stage, each alarm, of at most 32, and each of the first
/// ProjectionBook::kMaxLines projections adds some.
std::string render_metrics(const Metrics& metrics, const Survey& survey,
                           const ProcessFacts& process);

}  // namespace tt::hub
