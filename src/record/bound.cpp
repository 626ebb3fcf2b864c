#include "src/record/bound.h"

#include <SQLiteCpp/VariadicBind.h>

#include <algorithm>
#include <optional>

#include "src/record/schema.h"

namespace tt::record {
namespace {

constexpr std::uint64_t kScalarBytes = 48;  // approximate size of a scalar
// The columns of a row beside its payload, and its keys in the indexes.
constexpr std::size_t kRowBytes = 300;

constexpr const char* kOldest =
    "SELECT id, run, step, time_ns FROM frames WHERE id > ? AND (prompt_set = 0) = ?"
    " ORDER BY id LIMIT 1";
constexpr const char* kEraseStep =
    "DELETE FROM frames WHERE run = ? AND step = ? AND (prompt_set = 0) = ?";
constexpr const char* kEraseEventsBefore =
    "DELETE FROM events WHERE kind IN ('applied', 'saved', 'projections') AND time_ns < ?";
constexpr const char* kEraseOldestEvents = R"sql(
  DELETE FROM events
  WHERE id IN (SELECT id FROM events WHERE kind IN ('applied', 'saved', 'projections') ORDER BY id LIMIT 16)
    AND id < (SELECT max(id) FROM events WHERE kind IN ('applied', 'saved', 'projections')))sql";

struct Oldest {
  std::int64_t id = 0;
  std::int64_t run = 0;
  std::int64_t step = 0;
  std::int64_t time_ns = 0;
};

std::optional<Oldest> find_oldest(SQLite::Statement& select, std::int64_t after, bool is_traced) {
  SQLite::bind(select, after, is_traced ? 1 : 0);
  std::optional<Oldest> found;
  if (select.executeStep()) {
    found = Oldest{select.getColumn(0).getInt64(), select.getColumn(1).getInt64(),
                   select.getColumn(2).getInt64(), select.getColumn(3).getInt64()};
  }
  select.reset();
  return found;
}

int erase(SQLite::Database& database, const char* sql, auto... values) {
  SQLite::Statement statement(database, sql);
  SQLite::bind(statement, values...);
  return statement.exec();
}

}  // namespace

Bound::Bound(SQLite::Database& database, std::uint64_t max_bytes)
    : database_(database),
      page_bytes_(database.execAndGet("PRAGMA page_size").getInt64()),
      max_pages_(as_signed(max_bytes) / page_bytes_),
      thinner_(database),
      pages_(database,
             "SELECT page_count, freelist_count FROM pragma_page_count, pragma_freelist_count"),
      oldest_(database, kOldest) {
  if (is_limited()) {
    find_newest_step();
    scalars_ = as_unsigned(database_.execAndGet("SELECT count(*) FROM scalars").getInt64());
  }
}

std::uint64_t Bound::max_bytes() const { return as_unsigned(max_pages_ * page_bytes_); }

void Bound::start_again() {
  room_ = 0;
  erased_traced_ = 0;
  erased_prompts_ = 0;
  thinner_.start_again();
  find_newest_step();
}

void Bound::find_newest_step() {
  SQLite::Statement newest(database_, "SELECT run, step FROM frames ORDER BY id DESC LIMIT 1");
  if (newest.executeStep())
    newest_ = {newest.getColumn(0).getInt64(), newest.getColumn(1).getInt64()};
}

bool Bound::make_room(std::size_t bytes, bool may_thin) {
  if (!is_limited()) return true;
  // A large payload leaves part of its last page empty.
  const auto page = static_cast<std::size_t>(page_bytes_);
  const auto needed = static_cast<std::int64_t>(bytes + kRowBytes + (bytes > page / 4 ? page : 0));
  while (room_ < needed) {
    room_ = measure();
    if (room_ < needed && !erase_some(may_thin)) return false;
  }
  room_ -= needed;
  return true;
}

// Some pages stay free for indexes that split their pages.
std::int64_t Bound::measure() {
  pages_.executeStep();
  const std::int64_t used = pages_.getColumn(0).getInt64() - pages_.getColumn(1).getInt64();
  pages_.reset();
  const std::int64_t spare = std::clamp<std::int64_t>(max_pages_ / 32, 2, 32);
  return (max_pages_ - used - spare) * page_bytes_;
}

bool Bound::erase_some(bool may_thin) {
  const bool are_many = scalars_ * kScalarBytes > max_bytes() / 2;
  return (are_many && thin_scalars()) || erase_oldest_step(Kind::kTraced) ||
         erase_oldest_step(Kind::kPrompts) || erase_oldest_events() || (may_thin && thin_scalars());
}

bool Bound::erase_oldest_step(Kind kind) {
  const bool is_traced = kind == Kind::kTraced;
  std::int64_t& erased = is_traced ? erased_traced_ : erased_prompts_;
  const auto oldest = find_oldest(oldest_, erased, is_traced);
  if (!oldest || newest_ == std::pair(oldest->run, oldest->step)) return false;
  erase(database_, kEraseStep, oldest->run, oldest->step, is_traced ? 1 : 0);
  erased = oldest->id;
  // SQLite gives a new row the id after the largest one, also if rows with larger ids were erased.
  const std::int64_t last =
      database_.execAndGet("SELECT ifnull(max(id), 0) FROM frames").getInt64();
  erased_traced_ = std::min(erased_traced_, last);
  erased_prompts_ = std::min(erased_prompts_, last);
  if (const auto next = find_oldest(oldest_, erased, is_traced); is_traced && next)
    erase(database_, kEraseEventsBefore, next->time_ns);
  return true;
}

bool Bound::erase_oldest_events() { return database_.exec(kEraseOldestEvents) > 0; }

bool Bound::thin_scalars() {
  const std::uint64_t removed = thinner_.thin();
  scalars_ -= std::min(scalars_, removed);
  return removed > 0;
}

}  // namespace tt::record
