#pragma once

#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tensor_tracer/protocol/record.h"
#include "tensor_tracer/record/recording.h"

namespace tt::record {

/// Which frames are taken.
struct Selection {
  std::uint64_t run = 0;
  std::uint64_t first_step = 0;
  std::uint64_t last_step = INT64_MAX;
  std::optional<std::set<std::uint16_t>> points = {};  // by flag
  std::optional<std::set<std::uint16_t>> layers = {};  // and what has no layer
};

/// Frames that are alike but for their step, so that they stack to one array.
struct Series {
  std::uint16_t point = 0;
  std::uint16_t layer = 0;
  protocol::RecordDirection direction = protocol::RecordDirection::kValue;
  protocol::RecordPhase phase = protocol::RecordPhase::kTrain;
  std::uint32_t prompt_set = 0;
  protocol::RecordCompressor compressor = protocol::RecordCompressor::kNone;
  protocol::Dtype dtype = protocol::Dtype::kF32;
  std::uint32_t entry = 0;
  std::uint16_t data_rank = 0;
  std::string shape_text;  // as the file has it
  std::vector<std::uint64_t> shape;

  std::uint64_t records = 0;
  bool micro_batches = false;  // one of them is not 0
  bool first_rows = false;     // likewise
  bool plans = false;          // there is more than one
};

/// Where a frame belongs in its series.
struct Place {
  std::int64_t id = 0;
  std::int64_t step = 0;
  std::int64_t micro_batch = 0;
  std::int64_t first_row = 0;
  std::int64_t plan = 0;
};

/// Reads a recording series by series, in the one state that it had at the first call.
/// Thread: the recording's. Owner: of nothing; the recording outlives the reader.
class SeriesReader {
 public:
  SeriesReader(Recording& recording, Selection selection);

  /// By point, layer and the other members in their order.
  std::vector<Series> series();
  /// By step, then as written.
  void places(const Series& series, const std::function<void(const Place&)>& take);
  /// The same frames, with their payloads checked. Throws Failure for a damaged one.
  void records(const Series& series, const std::function<void(const protocol::RecordView&)>& take);

 private:
  void bind_range(SQLite::Statement& select) const;

  SQLite::Database& database_;
  Selection selection_;
  SQLite::Transaction snapshot_;
};

}  // namespace tt::record
