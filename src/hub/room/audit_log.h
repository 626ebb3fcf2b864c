#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "src/hub/fanout/latest_records.h"
#include "tensor_tracer/record/recorder.h"

namespace tt::hub {

/// Passes facts, steps, records and the audit trail on to the recorder, if there is a recorder.
/// Thread: the hub's I/O thread only.
class AuditLog {
 public:
  /// Starts the recording in the file `path`. Before this call, or without a recorder, nothing is
  /// recorded. `recorder` outlives the audit log.
  void start(record::Recorder& recorder, std::string path) {
    recorder_ = &recorder;
    path_ = std::move(path);
  }
  void end() { recorder_ = nullptr; }
  /// Call this if the recorder cannot be opened.
  void fail() { failed_ = true; }

  /// Adds the file and its limit to the run's facts.
  void describe_recording(nlohmann::json& facts) const;
  /// Selects the traced records that are recorded; null: none are.
  const record::RecordFilter* traced_filter() const;
  /// From now on all traced records are recorded. False if nothing is recorded.
  bool keep_all();

  record::RecorderCounters counters() const {
    return recorder_ != nullptr ? recorder_->counters()
                                : record::RecorderCounters{.stopped = failed_};
  }

  /// Losses of the recorder.
  struct Lost {
    std::uint64_t records = 0;
    std::uint64_t lines = 0;  // steps and events
  };
  /// The losses since the last call; nothing if the recorder has stopped (an alarm reports that).
  Lost take_lost();

  /// A run begins, or a new worker continues it: the event `run` records the plan, the prompt sets
  /// and the programs in force.
  void facts(const nlohmann::json& facts);
  /// The run's facts changed.
  void renew_facts(const nlohmann::json& facts);
  void state(const nlohmann::json& state);
  void step(const nlohmann::json& params);
  void record(const protocol::RecordHeader& header, const SharedBytes& bytes);
  /// `session` and `who` are empty if the hub or the trainer acts by itself. The event's step is
  /// the step in `detail`, else the run's step.
  void event(std::string kind, nlohmann::json detail, std::string session = {},
             std::string who = {});
  /// Adds an event of `bytes` bytes that is as frequent as records. If the disk is slow, the event
  /// is dropped as records are.
  void data(std::string kind, nlohmann::json detail, std::size_t bytes);

 private:
  void keep(record::Event event);
  /// Sets the step of later entries, for the recorder and for the log.
  void reach(const nlohmann::json& where);

  record::Recorder* recorder_ = nullptr;
  std::string path_;
  bool failed_ = false;
  Lost told_;
  std::uint64_t run_ = 0;
  std::uint64_t step_ = 0;
};

}  // namespace tt::hub
