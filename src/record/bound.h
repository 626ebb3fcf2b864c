#pragma once

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "src/record/scalar_thinner.h"

namespace tt::record {

/// Keeps a recording within its limit of bytes. It makes room before a row is written, so the pages
/// of erased rows are used again and the file never grows beyond the limit.
///
/// What goes, in this order: the oldest step's traced records, with the `saved` and `applied`
/// events before the next step's; the oldest step's records of prompts; most scalars (see
/// ScalarThinner). Scalars that use more than half of the limit are thinned first, so that some
/// traced records are always left; no others go for a record. The newest step's records stay. Other
/// events stay, even beyond the limit. A failure of SQLite is an SQLite::Exception. Thread: one at
/// a time. Owner: `database` outlives it.
class Bound {
 public:
  /// `max_bytes`: 0: no limit.
  Bound(SQLite::Database& database, std::uint64_t max_bytes);

  /// Makes room for a record of about this size. False if no rows are left that may go.
  bool make_room_for_record(std::size_t bytes) { return make_room(bytes, false); }
  /// Makes room for scalars or an event of about this size, as far as rows may go.
  void make_room(std::size_t bytes) { make_room(bytes, true); }
  /// The step of the records that are written from now on; it stays.
  void set_step(std::int64_t run, std::int64_t step) { newest_ = {run, step}; }
  /// Counts scalars that are about to be written.
  void add_scalars(std::size_t count) { scalars_ += count; }
  /// Ends the limit.
  void lift() { max_pages_ = 0; }
  /// Call it after a transaction was rolled back.
  void start_again();
  std::uint64_t max_bytes() const;

 private:
  enum class Kind { kTraced, kPrompts };

  bool is_limited() const { return max_pages_ > 0; }
  void find_newest_step();
  std::int64_t measure();
  bool make_room(std::size_t bytes, bool may_thin);
  bool erase_some(bool may_thin);
  bool erase_oldest_step(Kind kind);
  bool erase_oldest_events();
  bool thin_scalars();

  SQLite::Database& database_;
  std::int64_t page_bytes_;
  std::int64_t max_pages_;
  std::int64_t room_ = 0;      // bytes that can be written before the next measurement
  std::uint64_t scalars_ = 0;  // rows
  std::pair<std::int64_t, std::int64_t> newest_;  // run and step that stay
  // The ids of frames up to these hold no frame of the kind. At most the largest id of a frame.
  std::int64_t erased_traced_ = 0;
  std::int64_t erased_prompts_ = 0;
  ScalarThinner thinner_;
  SQLite::Statement pages_;
  SQLite::Statement oldest_;
};

}  // namespace tt::record
