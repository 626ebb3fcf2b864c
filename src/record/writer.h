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
using Item = std::variant<FrameItem, StepItem, Event, RunItem>;

/// The statements that write a recording, and the rule that limits its size. A failure of SQLite is
/// an SQLite::Exception.
/// Thread: one at a time. Owner: `database` outlives it.
class Writer {
 public:
  Writer(SQLite::Database& database, std::uint64_t max_bytes);

  /// Writes all of `items` in one transaction; on an exception it writes no item.
  void write(const std::vector<Item>& items);
  /// The bytes of the file's pages that are in use.
  std::uint64_t used_bytes();

 private:
  void insert(const FrameItem& item);
  void insert(const StepItem& item);
  void insert(const Event& item);
  void insert(const RunItem& item);
  void prune();
  bool erase_oldest_scalars();

  SQLite::Database& database_;
  const std::uint64_t max_bytes_;
  std::uint64_t scalars_ = 0;  // rows, or slightly more; counted if there is a limit
  SQLite::Statement frame_;
  SQLite::Statement scalar_;
  SQLite::Statement event_;
  SQLite::Statement run_;
  SQLite::Statement point_;
};

}  // namespace tt::record
