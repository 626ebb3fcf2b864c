#pragma once

#include <SQLiteCpp/Database.h>

#include <memory>

#include "tensor_tracer/record/recording.h"

namespace tt::record {

/// A connection to the file, shared with the writer where only one may be open.
class Recording::Impl {
 public:
  explicit Impl(std::shared_ptr<SQLite::Database> database) : database_(std::move(database)) {}
  SQLite::Database& database() { return *database_; }

 private:
  std::shared_ptr<SQLite::Database> database_;
};

}  // namespace tt::record
