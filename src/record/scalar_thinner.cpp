#include "src/record/scalar_thinner.h"

#include <SQLiteCpp/VariadicBind.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace tt::record {
namespace {

constexpr std::int64_t kFirstInterval = 8;
constexpr std::size_t kRowsAtOnce = 4096;

}  // namespace

ScalarThinner::ScalarThinner(SQLite::Database& database)
    : database_(database),
      select_(database,
              "SELECT run, step, name, value, time_ns FROM scalars WHERE (run, step) >= (?, ?)"
              " ORDER BY run, step, name"),
      newest_(database, "SELECT max(step) FROM scalars WHERE run = ?"),
      erase_(database, "DELETE FROM scalars WHERE run = ? AND step BETWEEN ? AND ?"),
      insert_(database, "INSERT INTO scalars VALUES (?,?,?,?,?)") {
  start_again();
}

void ScalarThinner::start_again() {
  SQLite::Statement known(database_, "SELECT value FROM meta WHERE key = 'scalar_interval'");
  interval_ = known.executeStep() ? std::max(known.getColumn(0).getInt64(), kFirstInterval)
                                  : kFirstInterval;
  run_ = step_ = std::numeric_limits<std::int64_t>::min();
  found_interval_ = false;
}

std::uint64_t ScalarThinner::thin() {
  while (true) {
    const Rows rows = read_next();
    if (rows.empty()) {
      const bool is_over = !found_interval_;
      begin_pass(is_over ? kFirstInterval : interval_ * 2);
      if (is_over) return 0;
      continue;
    }
    found_interval_ = true;
    Rows kept;
    for (auto begin = rows.begin(); begin != rows.end();) {
      const auto end = std::find_if_not(
          begin, rows.end(), [&](const Row& row) { return is_same_interval(*begin, row); });
      keep_some(begin, end, kept);
      begin = end;
    }
    if (kept.size() < rows.size()) {
      replace(rows, kept);
      return rows.size() - kept.size();
    }
  }
}

void ScalarThinner::begin_pass(std::int64_t interval) {
  interval_ = interval;
  SQLite::Statement meta(database_, "INSERT OR REPLACE INTO meta VALUES ('scalar_interval', ?)");
  meta.bind(1, std::to_string(interval_));
  meta.exec();
  run_ = step_ = std::numeric_limits<std::int64_t>::min();
  found_interval_ = false;
}

bool ScalarThinner::is_same_interval(const Row& a, const Row& b) const {
  return a.run == b.run && a.step / interval_ == b.step / interval_;
}

std::int64_t ScalarThinner::newest_step(std::int64_t run) {
  newest_.bind(1, run);
  newest_.executeStep();
  const std::int64_t step = newest_.getColumn(0).getInt64();
  newest_.reset();
  return step;
}

ScalarThinner::Rows ScalarThinner::read_next() {
  Rows rows;
  std::int64_t newest = 0;
  SQLite::bind(select_, run_, step_);
  bool is_at_end = true;
  while (select_.executeStep()) {
    Row row{.run = select_.getColumn(0).getInt64(),
            .step = select_.getColumn(1).getInt64(),
            .name = select_.getColumn(2).getString(),
            .value = select_.getColumn(3).isNull() ? std::numeric_limits<double>::quiet_NaN()
                                                   : select_.getColumn(3).getDouble(),
            .time_ns = select_.getColumn(4).getInt64()};
    const bool is_new = rows.empty() || !is_same_interval(rows.back(), row);
    if (is_new && rows.size() >= kRowsAtOnce) {
      run_ = row.run;
      step_ = row.step;
      is_at_end = false;
      break;
    }
    if (rows.empty() || rows.back().run != row.run) newest = newest_step(row.run);
    if (row.step / interval_ != newest / interval_) rows.push_back(std::move(row));
  }
  select_.reset();
  if (is_at_end) run_ = step_ = std::numeric_limits<std::int64_t>::max();
  return rows;
}

void ScalarThinner::keep_some(Rows::const_iterator begin, Rows::const_iterator end,
                              Rows& kept) const {
  struct Extremes {
    const Row* first;
    const Row* last;
    const Row* least;
    const Row* largest;
    const Row* first_nan;
  };
  std::map<std::string, Extremes> of_name;
  for (auto row = begin; row != end; ++row) {
    const Row* const finite = std::isnan(row->value) ? nullptr : &*row;
    const Row* const nan = finite == nullptr ? &*row : nullptr;
    const auto [at, is_new] =
        of_name.try_emplace(row->name, Extremes{&*row, &*row, finite, finite, nan});
    if (is_new) continue;
    Extremes& known = at->second;
    known.last = &*row;
    if (finite == nullptr) {
      known.first_nan = known.first_nan == nullptr ? nan : known.first_nan;
      continue;
    }
    known.least = known.least == nullptr || row->value < known.least->value ? finite : known.least;
    known.largest =
        known.largest == nullptr || row->value > known.largest->value ? finite : known.largest;
  }
  std::set<const Row*> stay;
  for (const auto& [name, known] : of_name)
    stay.insert({known.first, known.last, known.least, known.largest, known.first_nan});
  for (auto row = begin; row != end; ++row)
    if (stay.contains(&*row)) kept.push_back(*row);
}

void ScalarThinner::replace(const Rows& rows, const Rows& kept) {
  for (auto begin = rows.begin(); begin != rows.end();) {
    const auto end =
        std::find_if(begin, rows.end(), [&](const Row& row) { return row.run != begin->run; });
    SQLite::bind(erase_, begin->run, begin->step, std::prev(end)->step);
    erase_.exec();
    erase_.reset();
    begin = end;
  }
  for (const Row& row : kept) {
    SQLite::bind(insert_, row.run, row.step, row.name, row.value, row.time_ns);
    insert_.exec();
    insert_.reset();
  }
}

}  // namespace tt::record
