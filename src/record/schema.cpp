#include "src/record/schema.h"

#include <SQLiteCpp/Statement.h>

#include <string>

namespace tt::record {
namespace {

// frames.record is the last column: SQLite can read the columns before it without its pages.
constexpr const char* kTables = R"sql(
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE runs (
  run INTEGER PRIMARY KEY, id TEXT NOT NULL, name TEXT, host TEXT, start_time TEXT,
  facts TEXT NOT NULL);
CREATE TABLE points (
  run INTEGER NOT NULL, flag INTEGER NOT NULL, name TEXT NOT NULL, facts TEXT NOT NULL,
  PRIMARY KEY (run, flag)) WITHOUT ROWID;
CREATE TABLE frames (
  id INTEGER PRIMARY KEY, run INTEGER NOT NULL, sequence INTEGER NOT NULL, step INTEGER NOT NULL,
  micro_batch INTEGER NOT NULL, phase INTEGER NOT NULL, plan INTEGER NOT NULL,
  entry INTEGER NOT NULL, prompt_set INTEGER NOT NULL, first_row INTEGER NOT NULL,
  point INTEGER NOT NULL, layer INTEGER NOT NULL, direction INTEGER NOT NULL,
  tensor_rank INTEGER NOT NULL, pipeline_rank INTEGER NOT NULL, data_rank INTEGER NOT NULL,
  dtype INTEGER NOT NULL, compressor INTEGER NOT NULL, shape TEXT NOT NULL,
  features INTEGER NOT NULL, time_ns INTEGER NOT NULL, record BLOB NOT NULL);
CREATE INDEX frames_by_step ON frames (run, step, entry);
CREATE INDEX frames_by_place ON frames (run, point, layer, step, entry);
CREATE TABLE scalars (
  run INTEGER NOT NULL, step INTEGER NOT NULL, name TEXT NOT NULL, value REAL,
  time_ns INTEGER NOT NULL, PRIMARY KEY (run, step, name)) WITHOUT ROWID;
CREATE TABLE events (
  id INTEGER PRIMARY KEY, run INTEGER NOT NULL, time_ns INTEGER NOT NULL, step INTEGER NOT NULL,
  kind TEXT NOT NULL, session TEXT NOT NULL, who TEXT NOT NULL, detail TEXT NOT NULL);
)sql";

// For the rule that limits the file's size. Older recordings do not have this index.
constexpr const char* kIndexes = R"sql(
CREATE INDEX IF NOT EXISTS data_events ON events (time_ns) WHERE kind IN ('applied', 'saved', 'projections'))sql";

bool is_empty(SQLite::Database& database) {
  return database.execAndGet("SELECT count(*) FROM sqlite_schema").getInt64() == 0;
}

}  // namespace

base::Error not_a_recording(std::string message) {
  return {.code = "not_a_recording",
          .message = std::move(message),
          .remedy = "give a .ttrec file that `tensor-tracer train` wrote"};
}

base::Status prepare_schema(SQLite::Database& database) {
  if (!is_empty(database)) {
    base::Status known = check_schema(database);
    if (known.ok()) database.exec(kIndexes);
    return known;
  }
  database.exec("BEGIN IMMEDIATE");
  database.exec(kTables);
  database.exec(kIndexes);
  SQLite::Statement meta(database, "INSERT INTO meta VALUES ('schema_version', ?)");
  meta.bind(1, std::to_string(kSchemaVersion));
  meta.exec();
  database.exec("COMMIT");
  return {};
}

base::Status check_schema(SQLite::Database& database) {
  // Accepts tables only: a view would run SQL that the file's author wrote, for any length of time.
  for (const char* table : {"meta", "runs", "points", "frames", "scalars", "events"}) {
    if (!database.tableExists(table)) {
      return not_a_recording("this is an SQLite file, but no recording: it has no table " +
                             std::string(table));
    }
  }
  SQLite::Statement meta(database, "SELECT value FROM meta WHERE key = 'schema_version'");
  const std::string version = meta.executeStep() ? meta.getColumn(0).getString() : "missing";
  if (version != std::to_string(kSchemaVersion)) {
    return base::Error{.code = "unsupported_version",
                       .message = "its schema version is " + version + ", known is " +
                                  std::to_string(kSchemaVersion),
                       .remedy = "use a newer version of Tensor Tracer"};
  }
  return {};
}

std::string kept(SQLite::Database& database) {
  SQLite::Statement meta(database, "SELECT value FROM meta WHERE key = 'kept'");
  return meta.executeStep() ? meta.getColumn(0).getString() : "";
}

void mark_as_kept(SQLite::Database& database, const char* value) {
  SQLite::Statement meta(database, "INSERT OR REPLACE INTO meta VALUES ('kept', ?)");
  meta.bind(1, value);
  meta.exec();
}

std::uint64_t used_bytes(SQLite::Database& database) {
  constexpr const char* kUsed =
      "SELECT (page_count - freelist_count) * page_size"
      " FROM pragma_page_count, pragma_freelist_count, pragma_page_size";
  return as_unsigned(database.execAndGet(kUsed).getInt64());
}

}  // namespace tt::record
