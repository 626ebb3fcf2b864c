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
  std::uint64_t first_step = 0;  // of its frames and scalars; 0: none
  std::uint64_t last_step = 0;
  std::uint64_t first_frame_step = 0;  // of its frames alone: the oldest may be gone; 0: none
};

/// A place in the order of a run's frames: by step, then as written.
struct Cursor {
  std::uint64_t step = 0;
  std::int64_t id = 0;
};

/// Frames of `run` that fit all that is given; what is left as it is fits every frame.
struct FrameQuery {
  std::uint64_t run = 0;
  std::uint64_t first_step = 0;
  std::uint64_t last_step = INT64_MAX;
  std::optional<std::uint16_t> point = {};
  std::optional<std::uint32_t> entry = {};
  std::optional<std::set<std::uint16_t>> layers = {};
  std::optional<std::uint32_t> plan = {};
  bool only_latest = false;  // of each protocol::RecordKey the last one
  Cursor after = {};         // only frames beyond it
};

/// Owner: the recording; the view ends with the callback.
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

/// Events with an id beyond `after`, the first `limit` of them.
struct EventQuery {
  std::int64_t after = 0;
  std::size_t limit = 0;
  /// Of their details; one event is always given.
  std::size_t max_bytes = std::numeric_limits<std::size_t>::max();
  /// Of this kind; without it all but those of kDataKinds.
  std::optional<std::string> kind = {};
};

/// What the trainer told beside its steps: an event of kind `plan`, `interventions` or of
/// kDataKinds.
struct TrainerEvent {
  std::uint64_t step = 0;
  std::int64_t id = 0;
  std::string kind;
};

/// A reader of a recording, which may still be written. Each call sees one committed state.
/// Thread: one at a time.
class Recording {
 public:
  /// Opens the file for reading only. The error names the path and what is wrong.
  static base::Result<Recording> open(const std::string& path);
  Recording(Recording&&) noexcept = default;
  Recording& operator=(Recording&&) noexcept = default;

  /// Bytes of the file that hold something; free pages, and a log beside it, do not count.
  std::uint64_t used_bytes();
  /// The runs, in the order in which they began.
  std::vector<RunInfo> runs();
  /// How many frames there are of a run; reads an index of all of them.
  std::uint64_t count_frames(std::uint64_t run);
  /// Calls `take` for each frame that fits, by step and as written, until it returns false.
  void frames(const FrameQuery& query, const std::function<bool(const Frame&)>& take);
  /// The scalars of steps first to last, the last `limit` of them, in order.
  std::vector<StepRow> steps(std::uint64_t run, std::uint64_t first, std::uint64_t last,
                             std::size_t limit);
  /// All steps of which there are frames or scalars, in order, each with the time when its scalars
  /// were told, or that of the step before it.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> step_times(std::uint64_t run);
  /// With their ids, oldest first.
  std::vector<std::pair<std::int64_t, Event>> events(const EventQuery& query);
  /// Those of a run, by step and as they arrived.
  std::vector<TrainerEvent> trainer_events(std::uint64_t run);
  /// The `detail` of the event of this id; null if there is none (any more).
  nlohmann::json event_detail(std::int64_t id);

 private:
  friend class Recorder;
  explicit Recording(std::shared_ptr<SQLite::Database> database) : database_(std::move(database)) {}

  std::shared_ptr<SQLite::Database> database_;  // shared with the writer where only one may be open
};

}  // namespace tt::record
