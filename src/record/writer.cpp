#include "src/record/writer.h"

#include <SQLiteCpp/Transaction.h>

#include <algorithm>
#include <string_view>

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
// Data events: kDataKinds.
constexpr const char* kEraseEventsBeforeFrames = R"sql(
  DELETE FROM events WHERE kind IN ('applied', 'saved')
                       AND time_ns < (SELECT time_ns FROM frames ORDER BY id LIMIT 1))sql";
constexpr const char* kEraseOldestEvents = R"sql(
  DELETE FROM events
  WHERE id IN (SELECT id FROM events WHERE kind IN ('applied', 'saved') ORDER BY id LIMIT 16)
    AND id < (SELECT max(id) FROM events WHERE kind IN ('applied', 'saved')))sql";
// Many at once of the oldest run that has more than its newest step.
constexpr const char* kEraseOldestScalars = R"sql(
  WITH oldest AS (SELECT run, (SELECT max(step) FROM scalars s WHERE s.run = runs.run) AS newest
                  FROM runs WHERE newest > (SELECT min(step) FROM scalars s WHERE s.run = runs.run)
                  ORDER BY start_time, run LIMIT 1)
  DELETE FROM scalars WHERE run = (SELECT run FROM oldest)
    AND step < (SELECT newest FROM oldest)
    AND step <= ifnull((SELECT step FROM scalars WHERE run = (SELECT run FROM oldest)
                        ORDER BY step LIMIT 1 OFFSET 4096), (SELECT newest FROM oldest)))sql";
constexpr std::uint64_t kScalarBytes = 48;  // about what one takes

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

/// Binds in order.
class Binder {
 public:
  explicit Binder(SQLite::Statement& statement) : statement_(statement) {}
  template <typename Number>
  Binder& number(Number value) {
    statement_.bind(++index_, static_cast<std::int64_t>(value));
    return *this;
  }
  Binder& text(const std::string& value) {
    statement_.bind(++index_, value);
    return *this;
  }
  /// NaN is NULL in SQLite.
  Binder& real(double value) {
    statement_.bind(++index_, value);
    return *this;
  }
  /// `bytes` must live until the statement has run.
  Binder& blob(std::string_view bytes) {
    statement_.bindNoCopy(++index_, bytes.data(), static_cast<int>(bytes.size()));
    return *this;
  }
  void run() {
    statement_.exec();
    statement_.reset();
  }

 private:
  SQLite::Statement& statement_;
  int index_ = 0;
};

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
  Binder(frame_)
      .number(h.run)
      .number(h.sequence)
      .number(h.step)
      .number(h.micro_batch)
      .number(h.phase)
      .number(h.plan)
      .number(h.entry)
      .number(h.prompt_set)
      .number(h.first_row)
      .number(h.point)
      .number(h.layer)
      .number(h.direction)
      .number(h.tensor_rank)
      .number(h.pipeline_rank)
      .number(h.data_rank)
      .number(h.dtype)
      .number(h.compressor)
      .text(shape_text(h))
      .number(h.features)
      .number(h.time)
      .blob(*item.bytes)
      .run();
}

void Writer::insert(const StepItem& item) {
  scalars_ += item.values.size();
  for (const auto& [name, value] : item.values) {
    Binder(scalar_)
        .number(item.run)
        .number(item.step)
        .text(name)
        .real(value)
        .number(item.time_ns)
        .run();
  }
}

void Writer::insert(const Event& item) {
  Binder(event_)
      .number(item.run)
      .number(item.time_ns)
      .number(item.step)
      .text(item.kind)
      .text(item.session)
      .text(item.who)
      .text(dump(item.detail))
      .run();
}

void Writer::insert(const RunItem& item) {
  const json& facts = item.facts;
  const std::uint64_t run = run_number(text_of(facts, "id"));
  Binder(run_)
      .number(run)
      .text(text_of(facts, "id"))
      .text(text_of(facts, "name"))
      .text(text_of(facts, "host"))
      .text(text_of(facts, "start_time"))
      .text(dump(facts))
      .run();
  for (const json& point : protocol::member(facts, "points")) {
    if (const auto flag = natural(point, "flag")) {
      Binder(point_).number(run).number(*flag).text(text_of(point, "name")).text(dump(point)).run();
    }
  }
}

// The oldest steps go first, and the data events with them; scalars, which are small, where they
// take half of what is allowed or no frame is left. The newest step and data event stay even if
// they are bigger than everything allowed.
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
