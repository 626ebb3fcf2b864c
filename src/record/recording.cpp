#include "tensor_tracer/record/recording.h"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/VariadicBind.h>
#include <sqlite3.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <utility>

#include "src/record/schema.h"
#include "tensor_tracer/protocol/json_members.h"
#include "tensor_tracer/protocol/message.h"

namespace tt::record {
namespace {

using nlohmann::json;

base::Error cannot_open(const std::string& path, base::Error why) {
  why.message = "this recording cannot be read: " + why.message;
  why.where = path;
  return why;
}

// Replaces characters that have a meaning in a URI by their codes.
std::string escaped(const std::string& path) {
  std::string out;
  for (const char letter : path)
    if (letter == '%')
      out += "%25";
    else if (letter == '?')
      out += "%3F";
    else if (letter == '#')
      out += "%23";
    else
      out += letter;
  return out;
}

// SQLite's lock files cannot be made in a folder without write permission.
std::shared_ptr<SQLite::Database> open_read_only(const std::string& path) {
  try {
    auto database =
        std::make_shared<SQLite::Database>(path, SQLite::OPEN_READONLY, kBusyMilliseconds);
    database->execAndGet("SELECT count(*) FROM sqlite_schema");
    return database;
  } catch (const SQLite::Exception& error) {
    if (error.getErrorCode() == SQLITE_BUSY) throw;
    return std::make_shared<SQLite::Database>("file:" + escaped(path) + "?immutable=1",
                                              SQLite::OPEN_READONLY | SQLite::OPEN_URI);
  }
}

// Null if the file was damaged. The depth is limited: a walk over the tree uses stack for every
// level.
json parsed(const std::string& text) {
  constexpr protocol::TextLimits kLimits{.bytes = std::size_t{64} << 20U, .depth = 100};
  base::Result<json> value = protocol::parse_json(text, kLimits);
  return value.ok() ? std::move(value).value() : json();
}

// SQLite stores no NaN, and every scalar is stored as a double.
json number_of(const SQLite::Column& column) {
  if (column.isNull()) return std::numeric_limits<double>::quiet_NaN();
  constexpr double kExact = 9007199254740992.0;  // 2^53
  const double value = column.getDouble();
  if (value == std::floor(value) && std::abs(value) < kExact)
    return static_cast<std::int64_t>(value);
  return value;
}

// Numbers the records of each protocol::RecordKey, starting with the latest.
constexpr const char* kAge = R"sql(
  row_number() OVER (PARTITION BY entry, prompt_set, layer, tensor_rank, pipeline_rank, data_rank,
                                  phase, direction ORDER BY step DESC, id DESC) AS age )sql";

std::string ids_sql(const FrameQuery& query) {
  std::string sql = "FROM frames WHERE run = ? AND step BETWEEN ? AND ? AND (step, id) > (?, ?)";
  if (query.point) sql += " AND point = " + std::to_string(*query.point);
  if (query.entry) sql += " AND entry = " + std::to_string(*query.entry);
  if (query.plan) sql += " AND plan = " + std::to_string(*query.plan);
  if (query.layers) {
    std::string list;
    for (const std::uint16_t layer : *query.layers)
      list += (list.empty() ? "" : ",") + std::to_string(layer);
    sql += " AND layer IN (" + list + ")";
  }
  if (!query.only_latest) return "SELECT step, id " + sql + " ORDER BY step, id";
  return std::string("SELECT step, id FROM (SELECT step, id, ") + kAge + sql +
         ") WHERE age = 1 ORDER BY step, id";
}

}  // namespace

base::Result<Recording> Recording::open(const std::string& path) {
  if (!std::filesystem::is_regular_file(path))
    return cannot_open(path, not_a_recording("there is no such file"));
  try {
    auto database = open_read_only(path);
    if (base::Status known = check_schema(*database); !known.ok())
      return cannot_open(path, known.error());
    return Recording(std::move(database));
  } catch (const SQLite::Exception& error) {
    if (error.getErrorCode() == SQLITE_BUSY) {
      return base::Error{.code = "recording_in_use",
                         .message = "the hub of a run has this file for itself",
                         .where = path,
                         .remedy = "wait until the run has ended"};
    }
    return cannot_open(path, not_a_recording(error.what()));
  }
}

std::vector<RunInfo> Recording::runs() {
  constexpr const char* kSql = R"sql(
    SELECT run, id, facts,
      (SELECT min(step) FROM frames f WHERE f.run = runs.run),
      (SELECT max(step) FROM frames f WHERE f.run = runs.run),
      (SELECT min(step) FROM scalars s WHERE s.run = runs.run),
      (SELECT max(step) FROM scalars s WHERE s.run = runs.run)
    FROM runs ORDER BY start_time, run)sql";
  std::vector<RunInfo> out;
  SQLite::Statement select(*database_, kSql);
  while (select.executeStep()) {
    const auto step_at = [&](int column) {
      return as_unsigned(select.getColumn(column).getInt64());
    };
    RunInfo info{.run = step_at(0),
                 .id = select.getColumn(1).getString(),
                 .facts = parsed(select.getColumn(2).getString()),
                 .first_step = step_at(3),
                 .last_step = std::max(step_at(4), step_at(6)),
                 .first_frame_step = step_at(3)};
    if (info.first_step == 0 || (step_at(5) != 0 && step_at(5) < info.first_step))
      info.first_step = step_at(5);
    out.push_back(std::move(info));
  }
  return out;
}

bool Recording::is_kept() { return !kept(*database_).empty(); }

std::uint64_t Recording::used_bytes() { return record::used_bytes(*database_); }

std::uint64_t Recording::count_frames(std::uint64_t run) {
  SQLite::Statement count(*database_, "SELECT count(*) FROM frames WHERE run = ?");
  count.bind(1, as_signed(run));
  count.executeStep();
  return as_unsigned(count.getColumn(0).getInt64());
}

void Recording::frames(const FrameQuery& query, const std::function<bool(const Frame&)>& take) {
  SQLite::Statement ids(*database_, ids_sql(query));
  SQLite::bind(ids, as_signed(query.run), as_signed(query.first_step), as_signed(query.last_step),
               as_signed(query.after.step), query.after.id);
  SQLite::Statement blob(*database_, "SELECT record FROM frames WHERE id = ?");
  while (ids.executeStep()) {
    const Cursor at{.step = as_unsigned(ids.getColumn(0).getInt64()),
                    .id = ids.getColumn(1).getInt64()};
    blob.bind(1, at.id);
    if (blob.executeStep()) {
      const SQLite::Column record = blob.getColumn(0);
      const Frame frame{.at = at,
                        .record = {static_cast<const char*>(record.getBlob()),
                                   static_cast<std::size_t>(record.getBytes())}};
      if (!take(frame)) return;
    }
    blob.reset();
  }
}

std::vector<StepRow> Recording::steps(std::uint64_t run, std::uint64_t first, std::uint64_t last,
                                      std::size_t limit) {
  if (limit == 0) return {};
  constexpr const char* kSql = R"sql(
    SELECT step, name, value, time_ns FROM scalars WHERE run = ?1 AND step <= ?3 AND step >= max(?2,
      ifnull((SELECT min(step) FROM (SELECT DISTINCT step FROM scalars
              WHERE run = ?1 AND step <= ?3 ORDER BY step DESC LIMIT ?4)), 0))
    ORDER BY step, name)sql";
  SQLite::Statement select(*database_, kSql);
  SQLite::bind(select, as_signed(run), as_signed(first), as_signed(last), as_signed(limit));
  std::vector<StepRow> out;
  while (select.executeStep()) {
    const std::uint64_t step = as_unsigned(select.getColumn(0).getInt64());
    if (out.empty() || out.back().step != step) {
      out.push_back({.step = step,
                     .time_ns = as_unsigned(select.getColumn(3).getInt64()),
                     .params = {{"step", step}}});
    }
    out.back().params[select.getColumn(1).getString()] = number_of(select.getColumn(2));
  }
  return out;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> Recording::step_times(std::uint64_t run) {
  constexpr const char* kSql = R"sql(
    SELECT step, max(time_ns) FROM (
      SELECT DISTINCT step, 0 AS time_ns FROM frames WHERE run = ?1
      UNION ALL SELECT step, max(time_ns) FROM scalars WHERE run = ?1 GROUP BY step)
    GROUP BY step ORDER BY step)sql";
  SQLite::Statement select(*database_, kSql);
  select.bind(1, as_signed(run));
  std::vector<std::pair<std::uint64_t, std::uint64_t>> out;
  while (select.executeStep()) {
    const std::uint64_t time = as_unsigned(select.getColumn(1).getInt64());
    const std::uint64_t before = out.empty() ? 0 : out.back().second;
    out.emplace_back(as_unsigned(select.getColumn(0).getInt64()), time != 0 ? time : before);
  }
  return out;
}

std::optional<double> Recording::last_scalar(std::uint64_t run, const std::string& name) {
  SQLite::Statement select(
      *database_,
      "SELECT value FROM scalars WHERE run = ? AND name = ? ORDER BY step DESC LIMIT 1");
  SQLite::bind(select, as_signed(run), name);
  if (!select.executeStep()) return std::nullopt;
  const SQLite::Column value = select.getColumn(0);
  return value.isNull() ? std::numeric_limits<double>::quiet_NaN() : value.getDouble();
}

std::string Recording::last_phase(std::uint64_t run) {
  SQLite::Statement select(
      *database_,
      "SELECT detail FROM events WHERE run = ? AND kind = 'state' ORDER BY id DESC LIMIT 1");
  select.bind(1, as_signed(run));
  return select.executeStep() ? protocol::text_of(parsed(select.getColumn(0).getString()), "phase")
                              : "";
}

std::vector<std::pair<std::int64_t, Event>> Recording::events(const EventQuery& query) {
  const std::string kinds =
      query.kind ? "kind = ?3" : "kind NOT IN ('applied', 'saved', 'projections')";
  SQLite::Statement select(*database_,
                           "SELECT id, run, time_ns, step, kind, session, who, detail FROM events "
                           "WHERE id > ?1 AND " +
                               kinds + " ORDER BY id LIMIT ?2");
  SQLite::bind(select, query.after, as_signed(query.limit));
  if (query.kind) select.bind(3, *query.kind);
  std::vector<std::pair<std::int64_t, Event>> out;
  std::size_t bytes = 0;
  while (select.executeStep()) {
    bytes += static_cast<std::size_t>(select.getColumn(7).getBytes());
    if (!out.empty() && bytes > query.max_bytes) break;
    const auto number = [&](int column) {
      return as_unsigned(select.getColumn(column).getInt64());
    };
    out.emplace_back(select.getColumn(0).getInt64(),
                     Event{.run = number(1),
                           .time_ns = number(2),
                           .step = number(3),
                           .kind = select.getColumn(4).getString(),
                           .session = select.getColumn(5).getString(),
                           .who = select.getColumn(6).getString(),
                           .detail = parsed(select.getColumn(7).getString())});
  }
  return out;
}

std::vector<TrainerEvent> Recording::trainer_events(std::uint64_t run) {
  SQLite::Statement select(
      *database_,
      "SELECT step, id, kind FROM events WHERE run = ? "
      "AND kind IN ('plan', 'prompts', 'interventions', 'applied', 'saved', 'response', 'alarm', "
      "'projections') "
      "ORDER BY step, id");
  select.bind(1, as_signed(run));
  std::vector<TrainerEvent> out;
  while (select.executeStep()) {
    out.push_back({.step = as_unsigned(select.getColumn(0).getInt64()),
                   .id = select.getColumn(1).getInt64(),
                   .kind = select.getColumn(2).getString()});
  }
  return out;
}

json Recording::event_detail(std::int64_t id) {
  SQLite::Statement select(*database_, "SELECT detail FROM events WHERE id = ?");
  select.bind(1, id);
  return select.executeStep() ? parsed(select.getColumn(0).getString()) : json();
}

}  // namespace tt::record
