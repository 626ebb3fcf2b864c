#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/hub/room/client.h"
#include "src/hub/room/run_facts.h"
#include "tensor_tracer/protocol/record.h"
#include "tensor_tracer/protocol/request.h"

namespace tt::hub {

/// The leader of one pipeline stage.
struct Leader {
  Client* client = nullptr;                // null: the stage is missing
  std::optional<std::uint64_t> rank = {};  // of the leader that was connected last
  nlohmann::json facts = {};               // its run's id and the points of its stage
  PointNumbers numbers = {};               // of points, where they are not the run's
  Clock::time_point changed = {};          // when it connected or left
  bool reported_missing = false;           // in the log
  std::uint64_t records = 0;               // received from this stage
  std::uint64_t missed = 0;                // records of the gaps between their sequence numbers
  std::uint64_t dropped = 0;               // records that the leader itself reported as dropped
  std::uint64_t last_sequence = 0;
};

/// The leaders of the run, by pipeline stage, and what each has sent. A run without pipeline
/// stages has one leader, that of stage 0.
/// Thread: the hub's I/O thread only. Owner: it owns no client; each leader leaves before it ends.
class Leaders {
 public:
  /// The leader of stage 0, which gets the requests; null: no trainer is connected.
  Client* trainer() const { return leaders_.front().client; }
  /// Sends the notification to the trainer, if one is connected.
  void notify_trainer(std::string_view event, nlohmann::json params) const;
  /// By stage; at least one.
  const std::vector<Leader>& all() const { return leaders_; }

  /// An error if a worker that says this hello cannot lead its stage. A worker of another rank than
  /// 0 without a stage leads nothing.
  base::Status check(const protocol::WorkerHello& hello) const;
  /// The worker leads its stage from now on; returns the client that led it before. The run has as
  /// many stages as the leader of stage 0 says. REQUIRES: check() has passed, and the hello has a
  /// stage or rank 0.
  Client* take(Client& client, const protocol::WorkerHello& hello, Clock::time_point now);
  /// The stage that this client leads, or nothing.
  std::optional<std::size_t> stage_of(const Client& client) const;
  /// The stage has no leader from now on.
  void lose(std::size_t stage, Clock::time_point now);

  void set_point_numbers(std::size_t stage, PointNumbers numbers) {
    leaders_[stage].numbers = std::move(numbers);
  }
  /// The run's number of the point that has this number in records of the stage.
  std::uint16_t point_of_run(std::size_t stage, std::uint16_t number) const;

  void on_record(std::size_t stage, const protocol::RecordHeader& header);
  void on_dropped(std::size_t stage, std::uint64_t records) { leaders_[stage].dropped += records; }

  /// `parts` of docs/protocol.md; null if the run has one stage.
  nlohmann::json describe() const;
  /// "stage 1 of 2 (rank 8)".
  std::string name_of(std::size_t stage) const;
  /// A stage without a leader, or nothing.
  std::optional<std::size_t> missing() const;
  /// The stages that are missing for so long that people must know it; each is returned once.
  std::vector<std::size_t> take_long_missing(Clock::time_point now);

 private:
  std::vector<Leader> leaders_{1};
};

}  // namespace tt::hub
