#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>

#include "src/hub/fanout/latest_records.h"

namespace tt::hub {

/// The number of steps that are kept for late viewers.
inline constexpr std::size_t kMaxSteps = 2000;

/// The run that the hub shows: its facts and state, and its latest steps and records. It outlives
/// the workers' connections.
/// Thread: the hub's I/O thread only.
class RunState {
 public:
  explicit RunState(std::size_t max_record_bytes) : latest_(max_record_bytes) {}

  /// Facts of a trainer that has connected or reconnected. Another run id resets everything.
  void set_facts(nlohmann::json facts);
  /// True if the state changed.
  bool set_state(nlohmann::json state);
  /// The trainer's connection ended. True if the run therefore becomes lost, at its last step.
  bool lose();
  /// `params` are the params of the notification `message`.
  void add_step(const nlohmann::json& params, SharedBytes message);
  /// Late viewers get no earlier steps and records.
  void forget_past();
  void set_plan(const nlohmann::json& plan);
  /// Sets the limit of the recording in bytes; 0: no limit.
  void set_recording_limit(std::uint64_t max_bytes);
  /// Sets all prompt sets of the run.
  void set_prompt_sets(const nlohmann::json& sets);
  /// Sets all programs in force.
  void set_programs(const nlohmann::json& programs);

  const nlohmann::json& facts() const { return facts_; }
  const nlohmann::json& state() const { return state_; }
  /// The trainer has said that the run is over.
  bool has_ended() const;
  std::string phase() const;
  /// A list; empty if there are no programs.
  const nlohmann::json& programs() const;
  /// True if programs are in force that end with the controller's lease.
  bool has_programs_to_revert() const;
  const std::deque<SharedBytes>& steps() const { return steps_; }
  /// Keeps a record for late viewers, unless it belongs to a plan before the plan in force. Records
  /// can arrive after the message of a new plan, and their entries then have no meaning.
  void keep_record(StoredRecord record);
  const LatestRecords& latest() const { return latest_; }

 private:
  void follow_plan(const nlohmann::json& plan);

  nlohmann::json facts_;
  nlohmann::json state_ = {{"phase", "starting"}, {"step", 0}};
  std::uint64_t last_step_ = 0;
  std::deque<SharedBytes> steps_;
  LatestRecords latest_;
  std::uint32_t plan_ = 0;
};

}  // namespace tt::hub
