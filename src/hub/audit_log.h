#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "src/hub/latest_records.h"
#include "tensor_tracer/record/recorder.h"

namespace tt::hub {

/// Passes facts, steps, records and the audit trail on to the recorder, if there is one.
/// Thread: the hub's I/O thread only.
class AuditLog {
 public:
  /// From now on; before, and with none, nothing is kept. `recorder` outlives the audit_log.
  void start(record::Recorder& recorder) { recorder_ = &recorder; }
  void end() { recorder_ = nullptr; }
  /// There should be one, but it cannot be opened.
  void fail() { failed_ = true; }

  record::RecorderCounters counters() const {
    return recorder_ != nullptr ? recorder_->counters()
                                : record::RecorderCounters{.stopped = failed_};
  }

  /// Losses of the recorder.
  struct Lost {
    std::uint64_t records = 0;
    std::uint64_t lines = 0;  // steps and events
  };
  /// Since this was asked last; nothing once it has stopped, which an alarm tells.
  Lost take_lost();

  /// A run begins, or goes on with a new worker: an event `run` tells what is in force.
  void facts(const nlohmann::json& facts);
  void state(const nlohmann::json& state);
  void step(const nlohmann::json& params);
  void record(const protocol::RecordHeader& header, const SharedBytes& bytes);
  /// `session` and `who` are empty where the hub or the trainer acts by itself. The step is that of
  /// `detail`, or else the run's.
  void event(std::string kind, nlohmann::json detail, std::string session = {},
             std::string who = {});
  /// An event of `bytes` bytes that comes as often as records do: where the disk is slow it is
  /// dropped as they are.
  void data(std::string kind, nlohmann::json detail, std::size_t bytes);

 private:
  void keep(record::Event event);
  /// The step of what is told from now on, to the recorder and in the log.
  void reach(const nlohmann::json& where);

  record::Recorder* recorder_ = nullptr;
  bool failed_ = false;
  Lost told_;
  std::uint64_t run_ = 0;
  std::uint64_t step_ = 0;
};

}  // namespace tt::hub
