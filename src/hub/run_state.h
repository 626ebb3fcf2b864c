#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "src/hub/dialect/shown_records.h"
#include "src/hub/latest_records.h"

namespace tt::hub {

/// Steps kept for late viewers.
inline constexpr std::size_t kMaxSteps = 2000;

/// The run that the hub shows: its facts, state, the latest steps and records. It outlives
/// the workers' connections.
/// Thread: the hub's I/O thread only.
class RunState {
 public:
  explicit RunState(std::size_t max_record_bytes) : latest_(max_record_bytes) {}

  /// Facts of a (re)connected trainer; another run id starts afresh.
  void set_facts(nlohmann::json facts);
  /// True if the state changed.
  bool set_state(nlohmann::json state);
  /// The trainer's connection ended; true if that makes the run lost, at its last step.
  bool lose();
  /// `params`: those of the notification `message`.
  void add_step(const nlohmann::json& params, SharedBytes message);
  /// Late viewers get no steps and records of before.
  void forget_past();
  void set_plan(const nlohmann::json& plan);
  /// The programs in force, all of them.
  void set_programs(const nlohmann::json& programs);
  /// One of them, instead of one of the same name.
  void put_program(const nlohmann::json& program);
  void drop_program(const nlohmann::json& name);

  const nlohmann::json& facts() const { return facts_; }
  const nlohmann::json& state() const { return state_; }
  std::string phase() const;
  /// A list; empty if there are none.
  const nlohmann::json& programs() const;
  /// Null if it is not in force. Owner: this; ends with the next change.
  const nlohmann::json* find_program(std::string_view name) const;
  /// Programs are in force that end with the controller's lease.
  bool has_programs_to_revert() const;
  const std::deque<SharedBytes>& steps() const { return steps_; }
  /// For late viewers, unless it is of a plan before the one in force: records wait longer than
  /// the word of a new plan, and what its entries meant is over.
  void keep_record(StoredRecord record);
  const LatestRecords& latest() const { return latest_; }
  /// Of the plan in force.
  const dialect::ShownRecords& shown_records() const { return shown_records_; }

 private:
  void follow_plan(const nlohmann::json& plan);

  nlohmann::json facts_;
  nlohmann::json state_ = {{"phase", "starting"}, {"step", 0}};
  std::uint64_t last_step_ = 0;
  std::deque<SharedBytes> steps_;
  LatestRecords latest_;
  dialect::ShownRecords shown_records_;
  std::uint32_t plan_ = 0;
};

}  // namespace tt::hub
