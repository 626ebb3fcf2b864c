#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <string>

#include "tensor_tracer/base/result.h"

namespace tt::record {

inline constexpr int kSchemaVersion = 1;
/// The time to wait for another connection's lock.
inline constexpr int kBusyMilliseconds = 2000;

/// Makes the tables of docs/recording.md in an empty file, or checks that they exist.
base::Status prepare_schema(SQLite::Database& database);
/// An error if the file is not a recording of this schema.
base::Status check_schema(SQLite::Database& database);
base::Error not_a_recording(std::string message);
/// Values of `kept` in the table `meta`.
inline constexpr const char* kKeptRun = "run";
inline constexpr const char* kKeptRecords = "records";  // the file has no limit either
/// One of these values; empty: the run is not kept.
std::string kept(SQLite::Database& database);
void mark_as_kept(SQLite::Database& database, const char* value);
/// The bytes of the file that hold data, in the view of this connection.
std::uint64_t used_bytes(SQLite::Database& database);

/// SQLite has only signed integers; the 64 bits stay the same.
inline std::int64_t as_signed(std::uint64_t value) { return static_cast<std::int64_t>(value); }
inline std::uint64_t as_unsigned(std::int64_t value) { return static_cast<std::uint64_t>(value); }

}  // namespace tt::record
