#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/base/shared_bytes.h"
#include "tensor_tracer/protocol/record.h"

namespace tt::record {

class Recording;

/// Selects the records to keep; an empty member keeps all. Scalars and events are always kept.
struct RecordFilter {
  std::optional<std::set<std::string>> points = {};    // by name
  std::optional<std::set<std::uint16_t>> layers = {};  // records without a layer are kept too
  std::uint64_t every = 1;                             // keeps the steps that it divides
};

struct RecorderOptions {
  std::string path = {};        // made if absent; continued if it has this schema
  std::uint64_t max_bytes = 0;  // of the file: see record::Bound; 0: no limit
  /// If false, only the records of prompts are kept.
  bool takes_traced = true;
  /// Marks the file as kept: see Recording::is_kept().
  bool keep = false;
  /// Bytes that may wait for the disk. Above this limit the oldest records are dropped and counted.
  std::size_t queue_bytes = std::size_t{64} << 20U;
  std::chrono::milliseconds commit_interval{500};
  RecordFilter filter = {};
  /// Called once when the disk fails and recording stops, and once when the file was deleted or
  /// replaced. Thread: the recorder's own thread.
  std::function<void(const base::Error&)> on_alarm = {};
  /// A file system of SQLite, for tests; empty: the default file system.
  std::string vfs = {};
};

/// One line of the audit trail.
struct Event {
  std::uint64_t run = 0;
  std::uint64_t time_ns = 0;  // since 1970, UTC
  std::uint64_t step = 0;
  std::string kind = {};     // "control.pause", "plan", "dropped", "log", …
  std::string session = {};  // "v3"; empty: the hub or the trainer
  std::string who = {};      // the controller's name
  nlohmann::json detail = {};
  /// The approximate size of an event that may be dropped while it waits for the disk. 0: it is
  /// kept.
  std::size_t bytes = 0;
};

struct RecorderCounters {
  std::uint64_t records = 0;        // committed
  std::uint64_t bytes = 0;          // of committed records
  std::uint64_t dropped = 0;        // records never written: no room, queue full, or disk failed
  std::uint64_t dropped_lines = 0;  // steps and events never written
  std::uint64_t queue_bytes = 0;
  std::uint64_t max_bytes = 0;   // of the file; 0: no limit
  std::uint64_t file_bytes = 0;  // in use, without space that later records may use
  bool stopped = false;          // the disk failed
};

/// Writes one recording (docs/recording.md) on a separate thread that commits at least once a
/// second. No call waits for the disk, except open() and finish().
/// Thread: made, called and destroyed by one thread; counters() by any.
class Recorder {
 public:
  /// The error names the path: there is no such folder, no right to write, the file is not a
  /// recording, or the schema is newer.
  static base::Result<std::unique_ptr<Recorder>> open(RecorderOptions options);
  /// Calls finish().
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Sets "The run's facts" of docs/protocol.md; the filter needs them for the points' names.
  void set_run(const nlohmann::json& facts);
  /// Adds one whole wire record with its header. The bytes are shared, not copied.
  void add_record(const protocol::RecordHeader& header, base::SharedBytes bytes);
  /// Adds the params of a `step` notification of `run`: every number becomes a scalar.
  void add_step(std::uint64_t run, const nlohmann::json& params, std::uint64_t time_ns);
  void add_event(Event event);

  /// Runs `query` on a reader of the file, on another thread. If the recorder ends first, the query
  /// is destroyed by the end of finish(). Queries run one after another, and each should take
  /// milliseconds.
  void read(std::function<void(Recording&)> query);

  /// From now on all records that fit the filter are kept, without a limit of the file, also after
  /// a restart.
  void keep_all();
  /// True if all traced records are written, not only the records of prompts.
  bool takes_traced() const;
  const RecordFilter& filter() const;
  /// The limit of the file in bytes; 0: no limit.
  std::uint64_t max_bytes() const;

  RecorderCounters counters() const;
  /// Writes the waiting items, closes the file and joins the threads. Later calls do nothing.
  void finish();

 private:
  class Impl;
  explicit Recorder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// A run id of 16 hex digits as a number; 0 if it has another form.
std::uint64_t run_number(const std::string& id);
/// The reverse of run_number(); empty for 0.
std::string run_id(std::uint64_t number);

}  // namespace tt::record
