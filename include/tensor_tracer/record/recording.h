#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/record/recorder.h"

namespace SQLite {
class Database;
}

namespace tt::record {

/// One run of a recording.
struct RunInfo {
  std::uint64_t run = 0;
  std::string id;  // 16 hex digits
  nlohmann::json facts;
  std::uint64_t first_step = 0;  // of its frames and scalars; 0: no step
  std::uint64_t last_step = 0;
  std::uint64_t first_frame_step = 0;  // of its frames only: older ones may be erased; 0: no frame
};

/// A position in the order of a run's frames: by step, then in the order of writing.
struct Cursor {
  std::uint64_t step = 0;
  std::int64_t id = 0;
};

/// Selects the frames of `run` that fit all given members. A default member fits every frame.
struct FrameQuery {
  std::uint64_t run = 0;
  std::uint64_t first_step = 0;
  std::uint64_t last_step = INT64_MAX;
  std::optional<std::uint16_t> point = {};
  std::optional<std::uint32_t> entry = {};
  std::optional<std::set<std::uint16_t>> layers = {};
  std::optional<std::uint32_t> plan = {};
  bool only_latest = false;  // only the last one of each protocol::RecordKey
  Cursor after = {};         // only frames after this position
};

/// Owner: the recording; the view is valid until the callback returns.
struct Frame {
  Cursor at;
  std::string_view record;  // whole: header, payload, padding
};

/// The scalars of one step: the params of its `step` notification.
struct StepRow {
  std::uint64_t step = 0;
  std::uint64_t time_ns = 0;
  nlohmann::json params;
};

/// Selects the first `limit` events with an id above `after`.
struct EventQuery {
  std::int64_t after = 0;
  std::size_t limit = 0;
  /// The limit of their details' bytes; one event is always returned.
  std::size_t max_bytes = std::numeric_limits<std::size_t>::max();
  /// Only events of this kind. Without a kind, the query skips `applied`, `saved` and
  /// `projections`, because they can come at each step.
  std::optional<std::string> kind = {};
};

/// An event besides the steps that a replay shows, of one of the kinds in trainer_events().
struct TrainerEvent {
  std::uint64_t step = 0;
  std::int64_t id = 0;
  std::string kind;
};

/// Reads a recording, also while it is being written. Each call sees one committed state.
/// Thread: one at a time.
class Recording {
 public:
  /// Opens the file for reading only. The error names the path and the reason.
  static base::Result<Recording> open(const std::string& path);
  Recording(Recording&&) noexcept = default;
  Recording& operator=(Recording&&) noexcept = default;

  /// The bytes of the file that hold data. Free pages, and a log beside the file, do not count.
  std::uint64_t used_bytes();
  /// True if the run was recorded with --record, or if somebody chose to keep it.
  bool is_kept();
  /// The runs, in the order in which they began.
  std::vector<RunInfo> runs();
  /// The number of a run's frames. Reads an index of all frames.
  std::uint64_t count_frames(std::uint64_t run);
  /// Calls `take` for each frame that fits, until `take` returns false. Order: by step, then as
  /// written.
  void frames(const FrameQuery& query, const std::function<bool(const Frame&)>& take);
  /// The scalars of the steps `first` to `last`: only the last `limit` of them, in order.
  std::vector<StepRow> steps(std::uint64_t run, std::uint64_t first, std::uint64_t last,
                             std::size_t limit);
  /// All steps that have frames or scalars, in order. The second number is the time when the step's
  /// scalars arrived; without scalars it is the time of the step before.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> step_times(std::uint64_t run);
  /// The scalar's value at the newest step that has it.
  std::optional<double> last_scalar(std::uint64_t run, const std::string& name);
  /// The phase of the run's last state; empty if none is recorded.
  std::string last_phase(std::uint64_t run);
  /// The events with their ids, oldest first.
  std::vector<std::pair<std::int64_t, Event>> events(const EventQuery& query);
  /// The trainer's events of a run, by step and in the order of arrival.
  std::vector<TrainerEvent> trainer_events(std::uint64_t run);
  /// The `detail` of the event with this id; null if there is no such event, or it was erased.
  nlohmann::json event_detail(std::int64_t id);

 private:
  friend class Recorder;
  explicit Recording(std::shared_ptr<SQLite::Database> database) : database_(std::move(database)) {}

  std::shared_ptr<SQLite::Database> database_;  // shared with the writer if only one may be open
};

}  // namespace tt::record
