#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/base/shared_bytes.h"
#include "tensor_tracer/protocol/record.h"

namespace tt::record {

class Recording;

/// Which records are kept; nothing means all of them. Scalars and events are always kept.
struct RecordFilter {
  std::optional<std::set<std::string>> points = {};    // by name
  std::optional<std::set<std::uint16_t>> layers = {};  // and what has no layer
  std::uint64_t every = 1;                             // steps that it divides
};

struct RecorderOptions {
  std::string path = {};        // made if absent, gone on with if of this schema
  std::uint64_t max_bytes = 0;  // of the file, its oldest steps go first; 0: no bound
  /// What may wait for the disk; above it the oldest records are dropped and counted.
  std::size_t queue_bytes = std::size_t{64} << 20U;
  std::chrono::milliseconds commit_interval{500};
  /// A file that need not outlive a failure of power and is removed by finish().
  bool temporary = false;
  RecordFilter filter = {};
  /// Told once when the disk fails and recording stops, and once when the file was deleted or
  /// replaced by another one. Thread: the recorder's own.
  std::function<void(const base::Error&)> on_alarm = {};
  /// A file system of SQLite's, for tests; empty: the default one.
  std::string vfs = {};
};

/// Kinds of events that come as often as records do: the oldest go with the oldest frames.
inline constexpr std::array<std::string_view, 2> kDataKinds = {"applied", "saved"};

/// One line of the audit trail.
struct Event {
  std::uint64_t run = 0;
  std::uint64_t time_ns = 0;  // since 1970, UTC
  std::uint64_t step = 0;
  std::string kind = {};     // "control.pause", "plan", "dropped", "log", …
  std::string session = {};  // "v3"; empty: the hub or the trainer
  std::string who = {};      // the controller's name
  nlohmann::json detail = {};
  /// Of one that may be dropped while it waits for the disk: about what it takes. 0: it is kept.
  std::size_t bytes = 0;
};

struct RecorderCounters {
  std::uint64_t records = 0;        // committed
  std::uint64_t bytes = 0;          // of committed records
  std::uint64_t dropped = 0;        // records never written: the queue was full, or the disk failed
  std::uint64_t dropped_lines = 0;  // steps and events never written
  std::uint64_t queue_bytes = 0;
  std::uint64_t file_bytes = 0;  // in use, without what a later record may take
  bool stopped = false;          // the disk failed
};

/// Writes one recording (docs/recording.md) on a separate thread, which commits at least once a
/// second. No call waits for the disk but the constructor's open() and finish().
/// Thread: made, called and destroyed by one thread; counters() by any.
class Recorder {
 public:
  /// An error names the path: no such folder, no right to write, not a recording, a newer schema.
  static base::Result<std::unique_ptr<Recorder>> open(RecorderOptions options);
  /// finish().
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// "The run's facts" of docs/protocol.md; needed before the filter knows the points' names.
  void set_run(const nlohmann::json& facts);
  /// One whole wire record and its header. Shared, not copied.
  void add_record(const protocol::RecordHeader& header, base::SharedBytes bytes);
  /// The params of a `step` notification of `run`: every number becomes a scalar.
  void add_step(std::uint64_t run, const nlohmann::json& params, std::uint64_t time_ns);
  void add_event(Event event);

  /// Runs `query` on a reader of the file, on a thread that is not the caller's. Where the recorder
  /// ends before, the query is destroyed by the end of finish(). Queries run one after the other
  /// and each should take milliseconds.
  void read(std::function<void(Recording&)> query);

  RecorderCounters counters() const;
  /// Writes what waits, closes the file and joins the threads. Later calls do nothing.
  void finish();

 private:
  class Impl;
  explicit Recorder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// A run id of 16 hex digits as a number; 0 if it has another form.
std::uint64_t run_number(const std::string& id);
/// The other way; empty of 0.
std::string run_id(std::uint64_t number);

}  // namespace tt::record
