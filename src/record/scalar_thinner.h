#pragma once

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tt::record {

/// Thins the scalars of a recording. The steps of a run are divided into intervals of equal length.
/// Of each scalar's values in an interval the first, the last, the least, the largest and the first
/// NaN stay. Values whose interval is not over yet stay too. The intervals have 8 steps at first;
/// once all scalars are thinned, the length doubles.
/// A failure of SQLite is an SQLite::Exception.
/// Thread: one at a time. Owner: `database` outlives it.
class ScalarThinner {
 public:
  explicit ScalarThinner(SQLite::Database& database);

  /// Thins the next scalars, some thousands at a time. Returns the number of removed rows; 0 if no
  /// more rows can go.
  std::uint64_t thin();
  /// Continues with the oldest scalars, and reads the length of the intervals again.
  void start_again();

 private:
  struct Row {
    std::int64_t run = 0;
    std::int64_t step = 0;
    std::string name;
    double value = 0;  // NaN is stored as NULL
    std::int64_t time_ns = 0;
  };
  /// The rows of one interval are neighbours.
  using Rows = std::vector<Row>;

  bool is_same_interval(const Row& a, const Row& b) const;
  /// The scalars after the last ones, up to the end of an interval. Without an interval that is not
  /// over.
  Rows read_next();
  std::int64_t newest_step(std::int64_t run);
  /// Appends the rows that stay to `kept`. `begin` to `end`: the rows of one interval.
  void keep_some(Rows::const_iterator begin, Rows::const_iterator end, Rows& kept) const;
  /// Replaces the rows as a whole, so that their pages become free.
  void replace(const Rows& rows, const Rows& kept);
  /// Begins with the oldest scalars, with intervals of this length.
  void begin_pass(std::int64_t interval);

  SQLite::Database& database_;
  SQLite::Statement select_;
  SQLite::Statement newest_;
  SQLite::Statement erase_;
  SQLite::Statement insert_;
  std::int64_t interval_ = 0;  // steps
  // The next row's place; the first of all is below every run.
  std::int64_t run_ = INT64_MIN;
  std::int64_t step_ = INT64_MIN;
  bool found_interval_ = false;  // since the length was set
};

}  // namespace tt::record
