#include "src/record/writer.h"

#include <SQLiteCpp/Transaction.h>
#include <SQLiteCpp/VariadicBind.h>

#include <algorithm>

#include "src/record/schema.h"
#include "tensor_tracer/protocol/json_members.h"

namespace tt::record {
namespace {

using nlohmann::json;
using protocol::natural;
using protocol::text_of;

constexpr const char* kEraseOldestFrames = R"sql(
  WITH oldest AS (SELECT run, step FROM frames ORDER BY id LIMIT 1),
       newest AS (SELECT run, step FROM frames ORDER BY id DESC LIMIT 1)
  DELETE FROM frames WHERE (run, step) IN (SELECT run, step FROM oldest)
                       AND (run, step) NOT IN (SELECT run, step FROM newest))sql";
// Data events are the events of kDataKinds.
constexpr const char* kEraseEventsBeforeFrames = R"sql(
  DELETE FROM events WHERE kind IN ('applied', 'saved')
                       AND time_ns < (SELECT time_ns FROM frames ORDER BY id LIMIT 1))sql";
constexpr const char* kEraseOldestEvents = R"sql(
  DELETE FROM events
  WHERE id IN (SELECT id FROM events WHERE kind IN ('applied', 'saved') ORDER BY id LIMIT 16)
    AND id < (SELECT max(id) FROM events WHERE kind IN ('applied', 'saved')))sql";
// Erases many scalars in one statement, from the oldest run that has more than its newest step.
constexpr const char* kEraseOldestScalars = R"sql(
  WITH oldest AS (SELECT run, (SELECT max(step) FROM scalars s WHERE s.run = runs.run) AS newest
                  FROM runs WHERE newest > (SELECT min(step) FROM scalars s WHERE s.run = runs.run)
                  ORDER BY start_time, run LIMIT 1)
  DELETE FROM scalars WHERE run = (SELECT run FROM oldest)
    AND step < (SELECT newest FROM oldest)
    AND step <= ifnull((SELECT step FROM scalars WHERE run = (SELECT run FROM oldest)
                        ORDER BY step LIMIT 1 OFFSET 4096), (SELECT newest FROM oldest)))sql";
constexpr std::uint64_t kScalarBytes = 48;  // approximate size of a scalar

std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string shape_text(const protocol::RecordHeader& header) {
  json shape = json::array();
  for (std::size_t dim = 0; dim < header.ndim && dim < header.shape.size(); ++dim) {
    shape.push_back(header.shape[dim]);
  }
  return shape.dump();
}

// SQLite stores NaN as NULL.
template <typename... Values>
void run(SQLite::Statement& statement, const Values&... values) {
  SQLite::bind(statement, values...);
  statement.exec();
  statement.reset();
}

}  // namespace

Writer::Writer(SQLite::Database& database, std::uint64_t max_bytes)
    : database_(database),
      max_bytes_(max_bytes),
      frame_(database,
             "INSERT INTO frames VALUES (NULL,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"),
      scalar_(database, "INSERT OR REPLACE INTO scalars VALUES (?,?,?,?,?)"),
      event_(database, "INSERT INTO events VALUES (NULL,?,?,?,?,?,?,?)"),
      run_(database, "INSERT OR REPLACE INTO runs VALUES (?,?,?,?,?,?)"),
      point_(database, "INSERT OR REPLACE INTO points VALUES (?,?,?,?)") {
  if (max_bytes_ > 0) {
    scalars_ = as_unsigned(database_.execAndGet("SELECT count(*) FROM scalars").getInt64());
  }
}

void Writer::write(const std::vector<Item>& items) {
  SQLite::Transaction transaction(database_, SQLite::TransactionBehavior::IMMEDIATE);
  for (const Item& item : items) {
    std::visit([this](const auto& one) { insert(one); }, item);
  }
  prune();
  transaction.commit();
}

std::uint64_t Writer::used_bytes() { return record::used_bytes(database_); }

void Writer::insert(const FrameItem& item) {
  const protocol::RecordHeader& h = item.header;
  const auto code = [](auto name) { return static_cast<int>(name); };
  constexpr int kRecord = 21;
  // The bytes are not copied: they must live until the statement has run.
  frame_.bindNoCopy(kRecord, item.bytes->data(), static_cast<int>(item.bytes->size()));
  run(frame_, as_signed(h.run), as_signed(h.sequence), as_signed(h.step), h.micro_batch,
      code(h.phase), h.plan, h.entry, h.prompt_set, h.first_row, h.point, h.layer,
      code(h.direction), h.tensor_rank, h.pipeline_rank, h.data_rank, code(h.dtype),
      code(h.compressor), shape_text(h), h.features, as_signed(h.time));
}

void Writer::insert(const StepItem& item) {
  scalars_ += item.values.size();
  for (const auto& [name, value] : item.values) {
    run(scalar_, as_signed(item.run), as_signed(item.step), name, value, as_signed(item.time_ns));
  }
}

void Writer::insert(const Event& item) {
  run(event_, as_signed(item.run), as_signed(item.time_ns), as_signed(item.step), item.kind,
      item.session, item.who, dump(item.detail));
}

void Writer::insert(const RunItem& item) {
  const json& facts = item.facts;
  const std::string id = text_of(facts, "id");
  const std::int64_t number = as_signed(run_number(id));
  run(run_, number, id, text_of(facts, "name"), text_of(facts, "host"),
      text_of(facts, "start_time"), dump(facts));
  for (const json& point : protocol::member(facts, "points")) {
    if (const auto flag = natural(point, "flag")) {
      run(point_, number, as_signed(*flag), text_of(point, "name"), dump(point));
    }
  }
}

// Erases the oldest steps first, and their data events with them. Scalars are small; they are
// erased if they use half of the limit, or if no frame is left. The newest step and the newest data
// event stay even if they are larger than the limit.
void Writer::prune() {
  while (max_bytes_ > 0 && used_bytes() > max_bytes_) {
    if (scalars_ * kScalarBytes > max_bytes_ / 2 && erase_oldest_scalars()) {
      continue;
    }
    if (database_.exec(kEraseOldestFrames) > 0) {
      database_.exec(kEraseEventsBeforeFrames);
      continue;
    }
    if (database_.exec(kEraseOldestEvents) > 0) {
      continue;
    }
    const bool frames_left = database_.execAndGet("SELECT EXISTS (SELECT 1 FROM frames)").getInt();
    if (frames_left || !erase_oldest_scalars()) {
      return;
    }
  }
}

bool Writer::erase_oldest_scalars() {
  const auto erased = static_cast<std::uint64_t>(database_.exec(kEraseOldestScalars));
  scalars_ -= std::min(scalars_, erased);
  return erased > 0;
}

}  // namespace tt::record
