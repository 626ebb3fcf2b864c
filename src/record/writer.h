#pragma once

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "src/record/bound.h"
#include "tensor_tracer/record/recorder.h"

namespace tt::record {

struct RunItem {
  nlohmann::json facts;
};
struct FrameItem {
  protocol::RecordHeader header;
  base::SharedBytes bytes;
};
struct StepItem {
  std::uint64_t run = 0;
  std::uint64_t step = 0;
  std::uint64_t time_ns = 0;
  std::vector<std::pair<std::string, double>> values;
};
/// From now on the file has no limit.
struct KeepItem {};
using Item = std::variant<FrameItem, StepItem, Event, RunItem, KeepItem>;

/// The statements that write a recording. A failure of SQLite is an SQLite::Exception.
/// Thread: one at a time. Owner: `database` outlives it.
class Writer {
 public:
  /// `max_bytes`: of the file; 0: no limit.
  Writer(SQLite::Database& database, std::uint64_t max_bytes);

  /// Writes `items` in one transaction; on an exception it writes no item. Leaves out records for
  /// which the file has no room. Returns the number of these records.
  std::uint64_t write(const std::vector<Item>& items);
  /// The bytes of the file's pages that are in use.
  std::uint64_t used_bytes();

 private:
  bool insert(const FrameItem& item);
  void insert(const StepItem& item);
  void insert(const Event& item);
  void insert(const RunItem& item);
  void insert(const KeepItem& item);
  /// True if a reader that does not end its read keeps the write-ahead log long.
  bool is_log_full();

  SQLite::Database& database_;
  Bound bound_;
  SQLite::Statement frame_;
  SQLite::Statement scalar_;
  SQLite::Statement event_;
  SQLite::Statement run_;
  SQLite::Statement point_;
};

}  // namespace tt::record
